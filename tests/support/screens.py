"""Sizes of the screens on which pages are tested."""

WIDE = {"viewport": {"width": 1280, "height": 800}}
SCREENS = {
    "wide": WIDE,
    "dark": WIDE | {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}
