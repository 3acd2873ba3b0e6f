package diagnosecmd

// Redact takes a secret, and what looks like one, out of a text.
func Redact(known, text string) string {
	hide := newRedactor()
	hide.know(known)
	return hide.text(text)
}
