package cache

import "sync"

const (
	// maxText is the longest text that is shared, and maxTexts the number of texts that are
	// remembered at a time.
	maxText  = 64
	maxTexts = 4096
)

// Texts makes equal texts share their memory. Each text of a decoded object is allocated
// on its own, and thousands of objects repeat the same groups, kinds, namespaces, addresses
// and revisions. The zero value remembers nothing yet.
//
// It remembers the texts themselves and not [unique.Handle]s: a canonical text is dropped
// with the last handle, of which decoded objects have none.
type Texts struct {
	mu    sync.Mutex
	known map[string]string
}

// One returns the first of equal texts.
func (t *Texts) One(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.one(text)
}

// Value shares the texts of a decoded value, in place, and returns it. Keys of maps stay as
// they are.
func (t *Texts) Value(value any) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value(value)
}

// one is One with the lock held.
func (t *Texts) one(text string) string {
	if len(text) > maxText {
		return text
	}
	if known, found := t.known[text]; found {
		return known
	}
	// Texts that repeat are soon known again, and the others must not stay.
	if t.known == nil || len(t.known) >= maxTexts {
		t.known = map[string]string{}
	}
	t.known[text] = text
	return text
}

// value is Value with the lock held.
func (t *Texts) value(value any) any {
	switch v := value.(type) {
	case string:
		return t.one(v)
	case map[string]any:
		for key, each := range v {
			v[key] = t.value(each)
		}
	case []any:
		for at, each := range v {
			v[at] = t.value(each)
		}
	}
	return value
}
