package runtimecmd

// ShellWord is a text as one word of a shell.
func ShellWord(text string) string { return shellWord(text) }
