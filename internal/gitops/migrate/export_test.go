package migrate

import "errors"

// ReadsRecords are the readers of records, for the fuzz target.
func ReadsRecords(text string) error {
	_, first := readHeld(map[string]string{annotationHeld: text})
	read, second := readOrigin(map[string]string{annotationOrigin: text})
	if second == nil {
		for _, object := range read.Objects {
			_ = object.key().String()
		}
	}
	return errors.Join(first, second)
}
