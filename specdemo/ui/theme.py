"""How do Gradio's own controls come to wear the page's palette? By a theme whose values are the stylesheet's tokens.

The tokens change with `body.dark`, so light and dark need no second set of values.
"""

from __future__ import annotations

import gradio as gr

PALETTE = {
    "body_background_fill": "bg",
    "body_text_color": "ink",
    "body_text_color_subdued": "ink-2",
    "background_fill_primary": "bg",
    "background_fill_secondary": "surface",
    "block_background_fill": "bg",
    "block_border_color": "line",
    "block_info_text_color": "ink-2",
    "block_label_background_fill": "bg",
    "block_label_text_color": "ink",
    "block_title_text_color": "ink",
    "border_color_primary": "line",
    "border_color_accent": "accent",
    "color_accent": "accent",
    "color_accent_soft": "wash",
    "panel_background_fill": "bg",
    "input_background_fill": "surface",
    "input_background_fill_focus": "surface",
    "input_border_color": "edge",
    "input_border_color_focus": "accent",
    "input_placeholder_color": "ink-3",
    "slider_color": "accent",
    "loader_color": "accent",
    "link_text_color": "accent",
    "button_primary_background_fill": "accent",
    "button_primary_background_fill_hover": "accent",
    "button_primary_border_color": "accent",
    "button_primary_text_color": "on-accent",
    "button_secondary_background_fill": "surface",
    "button_secondary_background_fill_hover": "wash",
    "button_secondary_border_color": "edge",
    "button_secondary_text_color": "ink",
    "checkbox_background_color": "surface",
    "checkbox_background_color_selected": "accent",
    "checkbox_border_color": "edge",
    "checkbox_border_color_selected": "accent",
    "checkbox_label_background_fill": "surface",
    "checkbox_label_background_fill_hover": "wash",
    "checkbox_label_background_fill_selected": "wash",
    "checkbox_label_border_color": "line",
    "checkbox_label_text_color": "ink",
    "checkbox_label_text_color_selected": "ink",
    "accordion_text_color": "ink",
    "error_background_fill": "surface",
    "error_text_color": "ink",
    "error_border_color": "edge",
}


def theme() -> gr.themes.Base:
    """The page's theme. IBM Plex comes from Gradio itself, in the two weights that hold a whole alphabet."""
    sans = (gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "Noto Sans CJK SC", "system-ui", "sans-serif")
    mono = (gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace")
    colors = {name: f"var(--sd-{token})" for name, token in PALETTE.items()}
    base = gr.themes.Base(font=sans, font_mono=mono, radius_size=gr.themes.sizes.radius_sm)
    dark = {f"{name}_dark": value for name, value in colors.items() if hasattr(base, f"{name}_dark")}
    return base.set(
        **colors,
        **dark,
        block_shadow="none",
        input_shadow="none",
        input_shadow_focus="none",
        checkbox_label_shadow="none",
        block_title_text_weight="700",
        block_label_text_weight="700",
        button_large_text_weight="700",
        button_primary_shadow="none",
        button_secondary_shadow="none",
    )
