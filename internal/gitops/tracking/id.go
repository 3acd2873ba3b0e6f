package tracking

import (
	"fmt"
	"strings"
)

// maxID bounds an annotation that is read. Names and namespaces have at most 253
// and 63 characters, groups and kinds no more.
const maxID = 1024

// ID is the value of Argo CD's tracking annotation:
//
//	<instance>:<group>/<kind>:<namespace>/<name>
//
// The instance is the name of the Application, or <namespace>_<name> for one
// outside the control namespace. A role may have colons in its name, so the name
// is all that follows.
type ID struct {
	Instance string
	Key      Key
}

// String is the value of the annotation.
func (id ID) String() string {
	return id.Instance + ":" + id.Key.Group + "/" + id.Key.Kind + ":" + id.Key.Namespace + "/" + id.Key.Name
}

// ParseID reads the value of the annotation.
func ParseID(text string) (ID, error) {
	if len(text) > maxID {
		return ID{}, fmt.Errorf("tracking id has %d characters, the most is %d", len(text), maxID)
	}
	instance, rest, ok := strings.Cut(text, ":")
	if !ok {
		return ID{}, malformed(text)
	}
	kind, object, ok := strings.Cut(rest, ":")
	if !ok {
		return ID{}, malformed(text)
	}
	id := ID{Instance: instance}
	if id.Key.Group, id.Key.Kind, ok = pair(kind); !ok {
		return ID{}, malformed(text)
	}
	if id.Key.Namespace, id.Key.Name, ok = pair(object); !ok {
		return ID{}, malformed(text)
	}
	if id.Instance == "" || id.Key.Kind == "" || id.Key.Name == "" {
		return ID{}, malformed(text)
	}
	return id, nil
}

// pair splits at the only slash.
func pair(text string) (before, after string, ok bool) {
	before, after, ok = strings.Cut(text, "/")
	return before, after, ok && !strings.Contains(after, "/")
}

func malformed(text string) error {
	return fmt.Errorf("tracking id %.80q is not <app>:<group>/<kind>:<namespace>/<name>", text)
}

// Names reports whether the id is that of an object. The namespace in the id of
// an object without one does not count: Argo CD writes the namespace that the
// Application deploys to.
func (id ID) Names(object Key) bool {
	same := id.Key
	if object.Namespace == "" {
		same.Namespace = ""
	}
	return same == object
}
