package watch

const (
	// maxInterned is the longest text that is interned, and maxTexts the number of texts
	// that are remembered at a time.
	maxInterned = 64
	maxTexts    = 4096
)

// interner makes equal texts of objects share their memory. Each text of a decoded object
// is allocated on its own, and thousands of routes repeat the same groups, kinds, Gateways,
// namespaces and conditions.
type interner struct{ texts map[string]string }

// object interns the texts of spec and status. Those of the metadata are mostly unique.
func (i *interner) object(content map[string]any) {
	for _, field := range []string{"spec", "status"} {
		if value, has := content[field]; has {
			content[field] = i.value(value)
		}
	}
}

// value interns the texts of a value, in place.
func (i *interner) value(value any) any {
	switch v := value.(type) {
	case string:
		return i.text(v)
	case map[string]any:
		for key, each := range v {
			v[key] = i.value(each)
		}
	case []any:
		for at, each := range v {
			v[at] = i.value(each)
		}
	}
	return value
}

// text returns the first of equal texts.
func (i *interner) text(text string) string {
	if len(text) > maxInterned {
		return text
	}
	if known, found := i.texts[text]; found {
		return known
	}
	// Texts that repeat are soon known again, and the others must not stay.
	if i.texts == nil || len(i.texts) >= maxTexts {
		i.texts = map[string]string{}
	}
	i.texts[text] = text
	return text
}
