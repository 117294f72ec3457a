"""Messages to people and programs elsewhere: by webhook and by e-mail, from what the ledger holds.

`settings` reads the file that says whom to tell what, `notices` what events of the ledger are worth telling, `alarms`
what no event tells, `sending` and `signing` how a message goes out, `cursors` how far each target has been told, and
`notifier` runs it all beside the service.
"""
