"""The one table of actions: it makes the bindings, the footer, the help and the palette.

An action's name is also the name of the method ``action_<name>`` of the screen of its context.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Context(StrEnum):
    """On which screen an action works."""

    EVERYWHERE = "everywhere"
    TRACE = "trace"
    PROMPT = "prompt"
    LIST = "list"


class Action(Struct, frozen=True):
    """One thing that the user can do."""

    name: str
    keys: tuple[str, ...]
    """Textual's key names; the first is the one that is shown."""
    context: Context
    help: str
    group: str
    footer: str | None = None
    """Short word in the footer; None = only in help and palette."""
    shown: str | None = None
    """How the keys are written in help, where Textual's own names would not be understood."""

    @property
    def keys_shown(self) -> str:
        """The keys as a person would write them."""
        return self.shown or " ".join(self.keys)

    @property
    def key_shown(self) -> str:
        """The first key alone, for the footer."""
        return self.keys_shown.split()[0]


_T, _P, _L, _E = Context.TRACE, Context.PROMPT, Context.LIST, Context.EVERYWHERE

ACTIONS: tuple[Action, ...] = (
    Action("left", ("left", "h"), _T, "previous token", "move", shown="← h"),
    Action("right", ("right", "l"), _T, "next token", "move", shown="→ l"),
    Action("up", ("up", "k"), _T, "up: previous request, or one line in the pane", "move", shown="↑ k"),
    Action("down", ("down", "j"), _T, "down: next request, or one line in the pane", "move", shown="↓ j"),
    Action("page_up", ("pageup",), _T, "one page up in the pane", "move", shown="PgUp"),
    Action("page_down", ("pagedown",), _T, "one page down in the pane", "move", shown="PgDn"),
    Action("first", ("g", "home"), _T, "first request, or first token of the stream", "move", shown="g Home"),
    Action("last", ("G", "end"), _T, "last request, or last token of the stream", "move", shown="G End"),
    Action("tokens", ("enter",), _T, "to the tokens of this request", "jump", shown="Enter"),
    Action("next_request", ("right_square_bracket",), _T, "next request", "jump", shown="]"),
    Action("previous_request", ("left_square_bracket",), _T, "previous request", "jump", shown="["),
    Action("next_flip", ("n",), _T, "next flip (or next find)", "jump", "flip"),
    Action("previous_flip", ("N",), _T, "previous flip (or previous find)", "jump"),
    Action("next_near_tie", ("m",), _T, "next near tie", "jump", "near tie"),
    Action("previous_near_tie", ("M",), _T, "previous near tie", "jump"),
    Action("find", ("slash",), _T, "find text in the tokens; then n N", "jump", "find", "/"),
    Action("go_to", ("colon",), _T, "go to request.token, for instance 12.87", "jump", "go to", ":"),
    Action("arm", ("a",), _T, "next arm", "look", "arm"),
    Action("baseline", ("b",), _T, "next baseline", "look", "baseline"),
    Action("filter", ("f",), _T, "show all requests, flipped, drifted, cache miss", "look", "filter"),
    Action("ids", ("x",), _T, "tokens as text or as ids", "look", "ids"),
    Action("prompt", ("p",), _T, "the prompt, with its cached stretch marked", "look", "prompt"),
    Action("maximise", ("z",), _T, "this pane alone, and back", "look", "max"),
    Action("next_pane", ("tab",), _T, "next pane", "look", shown="Tab"),
    Action("previous_pane", ("shift+tab",), _T, "previous pane", "look", shown="Shift-Tab"),
    *(
        Action(f"pane({number})", (str(number),), _T, f"pane {number}: {name}", "look")
        for number, name in enumerate(
            ("requests", "tokens", "top-k", "flip", "drift", "cache", "arms"),
            start=1,
        )
    ),
    Action("copy", ("y",), _T, "copy the sentence at a flip, else the token", "take away", "copy"),
    Action("export", ("e",), _T, "this flip as a Markdown bug report", "take away", "export"),
    Action("replay", ("r",), _T, "replay this request now, as a new arm", "live", "replay"),
    Action("replay_all", ("R",), _T, "replay the whole episode under another state", "live"),
    Action(
        "cancel",
        ("escape",),
        _T,
        "end a find; stop a running replay (what it wrote stays)",
        "live",
        shown="Esc",
    ),
    Action("scroll(-1)", ("up", "k"), _P, "one line up", "move", shown="↑ k"),
    Action("scroll(1)", ("down", "j"), _P, "one line down", "move", shown="↓ j"),
    Action("page(-1)", ("pageup",), _P, "one page up", "move", shown="PgUp"),
    Action("page(1)", ("pagedown", "space"), _P, "one page down", "move", shown="PgDn Space"),
    Action("end(-1)", ("g", "home"), _P, "start of the prompt", "move", shown="g Home"),
    Action("end(1)", ("G", "end"), _P, "end of the prompt", "move", shown="G End"),
    Action("to_break", ("n",), _P, "to the token where the prefix broke", "jump", "break"),
    Action("arm", ("a",), _P, "next arm", "look", "arm"),
    Action("ids", ("x",), _P, "tokens as text or as ids", "look", "ids"),
    Action("back", ("escape", "p"), _P, "back to the tokens", "look", "back", "Esc p"),
    Action("open", ("enter",), _L, "open this episode", "list", "open", "Enter"),
    Action("up", ("up", "k"), _L, "previous episode", "move", shown="↑ k"),
    Action("down", ("down", "j"), _L, "next episode", "move", shown="↓ j"),
    Action("page_up", ("pageup",), _L, "one page up", "move", shown="PgUp"),
    Action("page_down", ("pagedown",), _L, "one page down", "move", shown="PgDn"),
    Action("first", ("g", "home"), _L, "first episode", "move", shown="g Home"),
    Action("last", ("G", "end"), _L, "last episode", "move", shown="G End"),
    Action("find", ("slash",), _L, "find an episode by its name", "jump", "find", "/"),
    Action("palette", ("ctrl+p",), _E, "every action, by name", "everywhere", "palette", "Ctrl-P"),
    Action("theme", ("T",), _E, "dark or light", "everywhere"),
    Action("screenshot", ("s",), _E, "save this screen as an SVG picture", "take away"),
    Action("help", ("question_mark",), _E, "what everything means, and every key", "everywhere", "help", "?"),
    Action("quit", ("q",), _E, "quit, or back to the list of episodes", "everywhere", "quit"),
)


def actions_of(*contexts: Context) -> tuple[Action, ...]:
    """The actions that work in any of these contexts, in the table's order."""
    return tuple(action for action in ACTIONS if action.context in contexts)
