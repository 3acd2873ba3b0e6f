package cli

import "time"

// RewriteContexts reads the text of a file of contexts and writes it again.
func RewriteContexts(text []byte) ([]byte, error) {
	book, err := parseContexts(text)
	if err != nil {
		return nil, err
	}
	return book.text()
}

// Redact takes a secret, and what looks like one, out of a text.
func Redact(known, text string) string {
	hide := newRedactor()
	hide.know(known)
	return hide.text(text)
}

// Lifetime reads a length of time, and gives it as it is shown.
func Lifetime(text string) (time.Duration, string, error) {
	var read lifetime
	err := read.Set(text)
	return time.Duration(read), read.String(), err
}

// ShellWord is a text as one word of a shell.
func ShellWord(text string) string { return shellWord(text) }

// EqualLabels takes a selector apart.
func EqualLabels(selector string) ([]string, error) { return equalLabels(selector) }
