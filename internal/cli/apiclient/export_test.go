package apiclient

// RewriteContexts reads the text of a file of contexts and writes it again.
func RewriteContexts(text []byte) ([]byte, error) {
	book, err := parseContexts(text)
	if err != nil {
		return nil, err
	}
	return book.text()
}
