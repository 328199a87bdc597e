"""One table makes bindings, footer, help and palette: nothing may be missing in one of them."""

from __future__ import annotations

import pytest

from tui.actions import ACTIONS, Action, Context, actions_of
from tui.app import TraceApp
from tui.bindings import bindings_of, target_of
from tui.palette import palette_of
from tui.screens.episode_list import EpisodeListScreen
from tui.screens.help import help_lines
from tui.screens.prompt import PromptScreen
from tui.screens.trace import TraceScreen

HOMES = {
    Context.TRACE: TraceScreen,
    Context.PROMPT: PromptScreen,
    Context.LIST: EpisodeListScreen,
    Context.EVERYWHERE: TraceApp,
}


@pytest.mark.parametrize("action", ACTIONS, ids=lambda a: f"{a.context}-{a.name}")
def test_every_action_has_a_method_and_a_binding(action: Action) -> None:
    home = HOMES[action.context]
    method = target_of(action).removeprefix("app.").partition("(")[0]
    assert callable(getattr(home, f"action_{method}"))
    bound = {binding.key for binding in home.BINDINGS if binding.action == target_of(action)}
    assert bound == set(action.keys)


@pytest.mark.parametrize("context", [Context.TRACE, Context.PROMPT, Context.LIST])
def test_no_key_means_two_things(context: Context) -> None:
    keys = [key for action in actions_of(context, Context.EVERYWHERE) for key in action.keys]
    assert sorted(keys) == sorted(set(keys))


@pytest.mark.parametrize("context", [Context.TRACE, Context.PROMPT, Context.LIST])
async def test_help_and_palette_have_every_action(context: Context, flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(80, 24)):
        contexts = (context, Context.EVERYWHERE)
        text = "\n".join(line.plain for line in help_lines(contexts, 200, palette_of(app)))
        for action in actions_of(*contexts):
            assert action.help in text
            assert action.keys_shown in text


async def test_the_palette_lists_every_action_and_runs_it(flipped) -> None:
    app = TraceApp(flipped)
    async with app.run_test(size=(120, 40)) as pilot:
        from tui.palette_entries import ActionCommands

        provider = ActionCommands(app.screen)
        entries = [hit async for hit in provider.discover()]
        wanted = [a for a in actions_of(Context.TRACE, Context.EVERYWHERE) if a.name != "palette"]
        assert len(entries) == len(wanted)
        before = app.screen.cursor.request
        entry = next(hit for hit in entries if str(hit.text).startswith("next request"))
        await entry.command()
        await pilot.pause()
        assert app.screen.cursor.request == before + 1


def test_the_footer_is_made_of_the_table() -> None:
    for context in (Context.TRACE, Context.PROMPT, Context.LIST):
        shown = [binding.description for binding in bindings_of(context) if binding.show]
        assert shown == [action.footer for action in actions_of(context) if action.footer]
