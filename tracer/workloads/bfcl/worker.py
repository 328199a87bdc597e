"""The process that runs the benchmark's own code for ONE episode of ONE arm, and then ends.

The package keeps simulated instances as module globals and never resets them, and it evaluates
model text. So a worker serves one episode only, under a constant tag (the tag leaks into tool
output), behind the gates and inside the sandbox. It reads one JSON object a line from stdin and
answers with one a line.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tracer.workloads.bfcl import dataset, gates, sandbox

TAG = "cachetrace"
"""Name under which instances are made: an identifier, and the same in every arm."""

_PARSER_STANDINS = (
    ("java_parser", "parse_java_function_call"),
    ("js_parser", "parse_javascript_function_call"),
)


class Package:
    """The parts of ``bfcl_eval`` that are used, imported from the wheel as they are."""

    def __init__(self, wheel: Path) -> None:
        sys.path.insert(0, str(wheel))
        for module_name, function_name in _PARSER_STANDINS:
            # The real ones need two native tree-sitter packages and serve other categories only.
            stand_in = types.ModuleType(f"bfcl_eval.model_handler.parser.{module_name}")
            setattr(stand_in, function_name, _no_such_language)
            sys.modules[stand_in.__name__] = stand_in
        self.utils = importlib.import_module("bfcl_eval.utils")
        self.handler = importlib.import_module("bfcl_eval.model_handler.utils")
        self.backend = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        self.checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
        self.executor = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
        self.step_limit = int(
            importlib.import_module("bfcl_eval.constants.default_prompts").MAXIMUM_STEP_LIMIT
        )

    def import_classes(self, classes: tuple[str, ...]) -> None:
        """Import now what the executor would import later, from behind the sandbox."""
        for name in classes:
            importlib.import_module(self.backend.CLASS_FILE_PATH_MAPPING[name])


def _no_such_language(*_: object) -> None:
    raise ValueError("only Python calls are decoded here")


class EpisodeRun:
    """One episode: its instances live in this process's globals of the package."""

    def __init__(self, wheel: Path, package: Package, episode_id: str) -> None:
        self.package = package
        found = dataset.read_entry(wheel, episode_id)
        files = [package.backend.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name] for name in found.classes]
        entry = copy.deepcopy(found.entry)
        entry["function"] = dataset.read_function_docs(wheel, files)
        self.entry = package.utils.add_language_specific_hint_to_function_doc([entry])[0]
        self.ground_truth = found.ground_truth
        self.offered = frozenset(str(doc["name"]) for doc in self.entry["function"])
        self.scored = False
        package.import_classes(found.classes)

    def opening(self) -> dict[str, Any]:
        """The messages of every turn; the first turn begins with the system message."""
        turns = copy.deepcopy(self.entry["question"])
        turns[0] = self.package.handler.system_prompt_pre_processing_chat_model(
            turns[0], copy.deepcopy(self.entry["function"]), self.entry["id"]
        )
        return {
            "turns": turns,
            "offered": sorted(self.offered),
            "step_limit": self.package.step_limit,
            "transcript": [[self._in_keywords(call) for call in turn] for turn in self.ground_truth],
        }

    def decode(self, text: str) -> dict[str, Any]:
        """Both gates and the official decoder, nothing executed."""
        judged = gates.before_decoding(text)
        if not judged:
            return {"kind": "not decodable" if judged is None else "empty", "calls": []}
        calls: list[dict[str, Any]] = []
        for call in judged:
            # Each call is decoded alone, so that a blocked one takes no other call with it.
            decoded = [] if call.blocked else self._official_decode(call.source)
            if decoded is None:
                return {"kind": "not decodable", "calls": []}
            if call.blocked:
                calls.append({"source": call.source, "name": call.name, "blocked": call.blocked})
            for string in decoded:
                blocked = gates.after_decoding(string, self.offered)
                calls.append({"source": string, "name": call.name, "blocked": blocked})
        return {"kind": "calls", "calls": calls}

    def step(self, text: str) -> dict[str, Any]:
        """Decode an answer, execute what may be executed, and say what goes back to the model."""
        answer = self.decode(text)
        if answer["kind"] != "calls":
            return answer
        allowed = [call["source"] for call in answer["calls"] if call["blocked"] is None]
        results = iter(self._execute(allowed))
        for call in answer["calls"]:
            refused = call["blocked"]
            call["result"] = next(results) if refused is None else f"Error during execution: {refused}"
        reply = {"model_responses_decoded": [call["source"] for call in answer["calls"]]}
        contents = [call["result"] for call in answer["calls"]]
        answer["message"] = self.package.handler.format_execution_results_prompting({}, contents, reply)
        answer["executed"] = allowed
        return answer

    def score(self, turns: list[list[list[str]]]) -> dict[str, Any]:
        """The official verdict on the executed calls, turn by turn and step by step.

        The number of turns is looked at first, as the official runner does: the checker itself
        raises IndexError on a short list.
        """
        if self.scored:
            raise ValueError("a worker scores once: the checker's instances are never reset")
        self.scored = True
        if len(turns) != len(self.ground_truth):
            return {"valid": False, "error_type": "multi_turn:force_terminated"}
        for call in (call for turn in turns for step in turn for call in step):
            if gates.after_decoding(call, self.offered) is not None:
                raise ValueError(f"this call was never executed: {call}")
        steps = [[step for step in turn if step] for turn in turns]
        category = self.entry["id"].rsplit("_", 1)[0]
        verdict = self.package.checker.multi_turn_checker(steps, self.ground_truth, self.entry, category, TAG)
        return {"valid": bool(verdict["valid"]), "error_type": verdict.get("error_type")}

    def _execute(self, calls: list[str]) -> list[str]:
        results, _ = self.package.executor.execute_multi_turn_func_call(
            func_call_list=calls,
            initial_config=self.entry["initial_config"],
            involved_classes=self.entry["involved_classes"],
            model_name=TAG,
            test_entry_id=self.entry["id"],
            long_context=False,
            is_evaL_run=False,
        )
        # A call such as echo(content='\ud800') answers with text that no prompt or trace can hold.
        return [str(result).encode("utf-8", "backslashreplace").decode() for result in results]

    def _official_decode(self, source: str) -> list[str] | None:
        try:
            decoded = self.package.handler.default_decode_execute_prompting(f"[{source}]")
        except Exception:  # noqa: BLE001  # the official loop treats every failure of its decoder alike
            return None
        return [str(call) for call in decoded]

    def _in_keywords(self, call: str) -> str:
        """A ground-truth call with its positional arguments named: the decoder would drop them."""
        node = ast.parse(call, mode="eval").body
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        doc = next(doc for doc in self.entry["function"] if doc["name"] == name)
        names = list(doc["parameters"]["properties"])
        named = [ast.keyword(arg=key, value=value) for key, value in zip(names, node.args, strict=False)]
        return ast.unparse(ast.Call(func=node.func, args=[], keywords=named + node.keywords))


def serve(reading: TextIO, writing: TextIO, wheel: Path, folder: Path) -> None:
    """Answer one JSON object a line until stdin ends."""
    refusals: list[str] = []
    isolation = sandbox.limit_resources()
    package = Package(wheel)
    isolation |= sandbox.enter_namespaces()
    run: EpisodeRun | None = None
    for line in reading:
        ask = json.loads(line)
        answer: dict[str, Any]
        try:
            if ask["do"] == "start":
                run = EpisodeRun(wheel, package, ask["episode"])
                readable = [name for name in sys.path if name] + [str(wheel)]
                isolation |= sandbox.refuse_the_rest(folder, readable, refusals.append)
                answer = {**run.opening(), "isolation": isolation}
            else:
                assert run is not None
                answer = _operations(run)[ask["do"]](ask["with"])
        except Exception as error:  # noqa: BLE001  # one reply for every question, whatever hostile text did
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["refused"] = refusals[:]
        refusals.clear()
        writing.write(json.dumps(answer) + "\n")
        writing.flush()


def _operations(run: EpisodeRun) -> dict[str, Callable[[Any], dict[str, Any]]]:
    return {"decode": run.decode, "step": run.step, "score": run.score}


def main(wheel: str, folder: str) -> None:
    """Entry point of the child: stdout is the protocol's, so prints of the package go to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["BFCL_PROJECT_ROOT"] = folder
    serve(sys.stdin, answers, Path(wheel), Path(folder))
