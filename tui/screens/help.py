"""Help: what every sign means, and every key, from the same tables that the panes use."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from tui.actions import Context, actions_of
from tui.palette import VERDICT_SIGNS, Palette
from tui.widgets.cache_timeline import STRETCH_SIGNS
from tui.widgets.lines import LinesPane, named_lines, paragraph

_MEANINGS = {
    "identical": "same tokens, same numbers",
    "drifted": "same tokens, other numbers",
    "flipped": "another token was chosen, given the same tokens before it",
    "downstream": "its prompt differs, and an earlier request of this arm flipped",
    "prompt-changed": "its prompt differs with no earlier flip",
    "unobserved": "tokens equal, but there are no numbers to compare",
    "failed": "the engine answered with an error",
    "incomplete": "cut off",
}
_POSITIONS = (
    ("▲", "flip: the first token that differs (in reverse)"),
    ("┈", "after the flip: the two lines are different texts (dimmed)"),
    ("≈", "near tie: a margin below the threshold (underlined)"),
    ("=", "exact tie: the two best values are equal"),
    ("f", "forced by a grammar or by stop handling: it has no margin"),
    ("?", "no number was observed"),
    ("⊣", "this arm's answer has ended"),
)
_WORDS = (
    ("margin", "logit of the best token minus that of the second best, in one arm"),
    ("drift", "how far two arms' logits are apart while all tokens before agree"),
    ("exposure", "of the prompt's tokens, how many came from a cache, and who said so"),
    ("–", "not observed; never a zero"),
)


def help_lines(contexts: tuple[Context, ...], room: int, palette: Palette) -> list[Text]:
    """The help for a screen."""
    lines: list[Text] = []

    def section(title: str, facts: tuple[tuple[str, str], ...]) -> None:
        if lines:
            lines.append(Text(""))
        lines.append(Text(title, style=palette.heading))
        lines.extend(named_lines(facts, room, palette))

    groups: dict[str, list[tuple[str, str]]] = {}
    for action in actions_of(*contexts):
        groups.setdefault(action.group, []).append((action.keys_shown, action.help))
    for group, keys in groups.items():
        section(f"keys: {group}", tuple(keys))
    if Context.LIST not in contexts:
        section("verdict of a request", tuple((f"{s} {v}", _MEANINGS[v]) for v, s in VERDICT_SIGNS.items()))
        section("signs under a token", _POSITIONS)
        section("cache", tuple((sign, str(kind)) for kind, sign in STRETCH_SIGNS.items()))
        section("words", _WORDS)
        lines += [Text(""), *paragraph("The wide layout needs 120 columns.", room, palette.faint)]
    return lines


class HelpPane(LinesPane):
    """The scrolling text of the help."""

    def __init__(self, contexts: tuple[Context, ...]) -> None:
        super().__init__(id="help")
        self._contexts = contexts

    def on_resize(self) -> None:
        self.set_lines(help_lines(self._contexts, self.room, self.palette))


class HelpScreen(ModalScreen[None]):
    """Help over the screen that asked for it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen #help {
        width: 90%; max-width: 96; height: 90%;
        border: round $primary; padding: 0 1; background: $background;
    }
    """
    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark", "dismiss_help", "back"),
        Binding("down,j", "scroll(1)", "down"),
        Binding("up,k", "scroll(-1)", "up"),
        Binding("pagedown,space", "scroll(15)", "page down"),
        Binding("pageup", "scroll(-15)", "page up"),
        Binding("g,home", "scroll(-9999)", "start"),
        Binding("G,end", "scroll(9999)", "end"),
    ]

    def __init__(self, contexts: tuple[Context, ...]) -> None:
        super().__init__()
        self._contexts = contexts

    def compose(self) -> ComposeResult:
        pane = HelpPane(self._contexts)
        pane.border_title = "help"
        pane.border_subtitle = "↑ ↓ scroll, Esc back"
        yield pane

    def on_mount(self) -> None:
        self.query_one(HelpPane).focus()

    def action_scroll(self, lines: int) -> None:
        self.query_one(HelpPane).scroll_relative(y=lines, animate=False)

    def action_dismiss_help(self) -> None:
        self.dismiss(None)
