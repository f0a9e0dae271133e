"""What every package needs: errors, numbers and tables as text, files, results, names of columns.

`errors` has the errors and checks of arguments, `text` numbers and tables as people read them,
`arrow` frames between libraries, `writing` files that appear complete or not at all, `manifest`
what a file says of its making, and `results` what all results share. `column_names` has all
recognised names and what they mean, `nouns` the nouns of ids. `doors` finds what opens the rest.

It imports no other package but the list of doors; all import it. `results` loads pages when
something is drawn.
"""
