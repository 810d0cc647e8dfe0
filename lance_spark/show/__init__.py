"""How values are shown: words for numbers, text in columns, cards as text and as HTML."""
