package manifest

import "fmt"

// NoVersionError is an object with a kind and a name that has no apiVersion. The
// file with it was meant as a manifest: to leave it out would prune the object.
type NoVersionError struct{ Where, Kind string }

// Error names the object and what to add.
func (e *NoVersionError) Error() string {
	return fmt.Sprintf("%s, a %s, has no apiVersion: add it", e.Where, e.Kind)
}

// noVersion is the error for an object without an apiVersion. Other files, such as
// values, may have a key called kind.
func noVersion(where, kind string, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	if name, _ := metadata["name"].(string); name != "" {
		return &NoVersionError{Where: where, Kind: kind}
	}
	return fmt.Errorf("%s, a %s, has no apiVersion", where, kind)
}
