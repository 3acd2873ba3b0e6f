package apply

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// memory knows of objects in which state they were when applying something to
// them changed nothing. It is for what isCertain cannot know: values that the
// API server writes in its own way. It is safe for concurrent use.
type memory struct {
	mu sync.Mutex
	of map[types.UID]settled
}

// settled is a state, and what was applied to it.
type settled struct{ desired, state [sha256.Size]byte }

// memoryMost bounds how many objects are remembered. Each takes about 150 bytes.
const memoryMost = 1 << 15

// learn notes that applying a text to an object in this state changes nothing.
func (m *memory) learn(uid types.UID, desired []byte, live *unstructured.Unstructured) {
	state, ok := stateOf(live)
	if !ok || uid == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= memoryMost {
		m.of = map[types.UID]settled{}
	}
	m.of[uid] = settled{sha256.Sum256(desired), state}
}

// knows reports whether applying a text to an object changes nothing.
func (m *memory) knows(desired []byte, live *unstructured.Unstructured) bool {
	m.mu.Lock()
	known, ok := m.of[live.GetUID()]
	m.mu.Unlock()
	if !ok || known.desired != sha256.Sum256(desired) {
		return false
	}
	state, ok := stateOf(live)
	return ok && known.state == state
}

// stateOf is a hash of all of an object that an apply depends on: everything but
// its status and when something was written.
func stateOf(live *unstructured.Unstructured) ([sha256.Size]byte, bool) {
	object := without(live.Object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	metadata = without(metadata, "resourceVersion")
	var entries []any
	for _, entry := range entriesOf(live.Object) {
		if entry.text("subresource") == "" {
			entries = append(entries, without(entry, "time"))
		}
	}
	metadata["managedFields"] = entries
	object["metadata"] = metadata
	raw, err := json.Marshal(object)
	if err != nil {
		return [sha256.Size]byte{}, false
	}
	return sha256.Sum256(raw), true
}

// contentOf is an object without what a write changes whatever it writes.
func contentOf(object *unstructured.Unstructured) map[string]any {
	content := maps.Clone(object.Object)
	metadata, _ := content["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		metadata = without(metadata, field)
	}
	content["metadata"] = metadata
	return content
}
