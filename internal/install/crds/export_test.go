package crds

// ReadsRecord is the reader of records, for the fuzz target.
func ReadsRecord(text string) error {
	_, err := readRecord(text)
	return err
}
