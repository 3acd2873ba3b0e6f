package apply

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// noopCache has the states of objects to which an apply changed nothing. It
// covers what isCertainNoop cannot decide: values that the API server
// normalizes. It is safe for concurrent use.
type noopCache struct {
	mu sync.Mutex
	of map[types.UID]noopState
}

// noopState are the hashes of an object's state and of what was applied to it.
type noopState struct{ desired, state [sha256.Size]byte }

// maxNoops bounds the cache, at about 150 bytes for each. When it is full it is
// emptied: the next comparisons fill it again.
const maxNoops = 1 << 15

// request is an object that is applied, and its text.
type request struct {
	object map[string]any
	body   []byte
}

// add records that an apply to an object in this state changes nothing.
func (m *noopCache) add(sent request, live *unstructured.Unstructured) {
	state, ok := stateOf(sent.object, live)
	uid := live.GetUID()
	if !ok || uid == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= maxNoops {
		m.of = map[types.UID]noopState{}
	}
	m.of[uid] = noopState{sha256.Sum256(sent.body), state}
}

// has reports whether an apply to an object is recorded as changing nothing.
func (m *noopCache) has(sent request, live *unstructured.Unstructured) bool {
	m.mu.Lock()
	known, ok := m.of[live.GetUID()]
	m.mu.Unlock()
	if !ok || known.desired != sha256.Sum256(sent.body) {
		return false
	}
	state, ok := stateOf(sent.object, live)
	return ok && known.state == state
}

// resembles reports whether an object became what was applied, but for how values
// are written and for what was added. Then applying it again changes nothing.
// That is not so for all objects: the API server merges what is null or empty in
// ways of its own, and may need two applies to come to rest.
func resembles(desired, is any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := is.(map[string]any)
		if !ok || len(desired) == 0 && len(fields) > 0 {
			return false
		}
		for key, value := range desired {
			now, has := fields[key]
			if !has && isEmpty(value) {
				continue
			}
			if !resembles(value, now) {
				return false
			}
		}
		return true
	case []any:
		elements, ok := is.([]any)
		if !ok || len(elements) != len(desired) {
			return false
		}
		for i := range desired {
			if !resembles(desired[i], elements[i]) {
				return false
			}
		}
		return true
	case string:
		_, ok := is.(string)
		return ok
	}
	return desired != nil && equal(desired, is)
}

// stateOf hashes the part of an object that decides what an apply changes:
// everything but the status, timestamps, and labels and annotations that are
// neither ours nor desired.
func stateOf(desired map[string]any, live *unstructured.Unstructured) ([sha256.Size]byte, bool) {
	entries := entriesOf(live.Object)
	object := without(live.Object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	metadata = without(metadata, "resourceVersion")
	owned, _ := ours(entries).fields()["f:metadata"].(map[string]any)
	wanted, _ := desired["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if is, ok := metadata[field].(map[string]any); ok {
			metadata[field] = concerned(is, wanted[field], owned["f:"+field])
		}
	}
	var kept []any
	for _, entry := range entries {
		if entry.text("subresource") == "" {
			kept = append(kept, without(entry, "time"))
		}
	}
	metadata["managedFields"] = kept
	object["metadata"] = metadata
	raw, err := json.Marshal(object)
	if err != nil {
		return [sha256.Size]byte{}, false
	}
	return sha256.Sum256(raw), true
}

// concerned are the values of a map that are wanted or ours.
func concerned(is map[string]any, wanted, owned any) map[string]any {
	want, _ := wanted.(map[string]any)
	have, _ := owned.(map[string]any)
	kept := map[string]any{}
	for key, value := range is {
		_, isWanted := want[key]
		_, isOwned := have["f:"+key]
		if isWanted || isOwned {
			kept[key] = value
		}
	}
	return kept
}

// sameContent compares two states of an object without the fields that every
// write changes, and without the status unless it was applied.
func sameContent(sent request, before, after *unstructured.Unstructured) bool {
	return equal(contentOf(sent, before), contentOf(sent, after))
}

// contentOf is an object without the fields that every write changes.
func contentOf(sent request, object *unstructured.Unstructured) map[string]any {
	content := maps.Clone(object.Object)
	if _, applied := sent.object["status"]; !applied {
		delete(content, "status")
	}
	metadata, _ := content["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		metadata = without(metadata, field)
	}
	content["metadata"] = metadata
	return content
}
