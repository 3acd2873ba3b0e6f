package values

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/finding"
)

// Check reports all problems of the values as such: unknown keys, wrong kinds,
// broken rules, and aliases that disagree. Problems come in the order of the
// keys, conflicts of aliases last.
func (d Document) Check() []finding.Finding {
	found := d.catalogue.walk(d.catalogue.tree(true), d.given)
	for _, value := range d.catalogue.Values {
		if value.Alias == "" {
			continue
		}
		own, first := lookup(d.given, value.Key)
		other, second := lookup(d.given, value.Alias)
		// A spelling with the default counts as not given, because Helm merges
		// the defaults of the chart into the values.
		if first && second && !value.unchanged(own) && !value.unchanged(other) && fmt.Sprint(own) != fmt.Sprint(other) {
			found = append(found, wrong(CodeAlias, value.Key, value.Key+" and "+value.Alias+" are two spellings of one value, and differ",
				"keep "+value.Key+" and leave "+value.Alias+" out")...)
		}
	}
	return found
}

// wrong returns one error about a key.
func wrong(code, key, message, fix string) []finding.Finding {
	return []finding.Finding{{Code: code, Severity: finding.Error, Subject: key, Message: message, Fix: fix}}
}

// walk checks a mapping against the tree of keys.
func (c Catalogue) walk(at *node, given map[string]any) []finding.Finding {
	var found []finding.Finding
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, key := given[name], strings.TrimPrefix(at.path+"."+name, ".")
		next := at.child(name)
		switch {
		case next == nil && slices.Contains(c.Open, at.path):
			// Other charts have keys of their own in an open group.
		case next == nil:
			found = append(found, unknown(at, name, key)...)
		case next.value != nil:
			found = append(found, next.value.check(key, value)...)
		case value == nil:
			// A group with nothing but comments below it decodes to nil.
		default:
			below, ok := value.(map[string]any)
			if !ok {
				found = append(found, wrong(CodeKind, key, "it is "+kindOf(value)+", and has to be a group of keys", "write the keys below it, each on a line of its own")...)
				continue
			}
			found = append(found, c.walk(next, below)...)
		}
	}
	return found
}

// unknown is the finding of a key that the chart does not have, with the
// nearest one.
func unknown(at *node, name, key string) []finding.Finding {
	var names []string
	for _, each := range at.below {
		names = append(names, each.name)
	}
	fix := "leave it out: here are " + strings.Join(names, ", ")
	if near := declare.Nearest(name, names); near != "" {
		fix = "did you mean " + near + "?"
	}
	return wrong(CodeUnknown, key, "there is no such value", fix)
}

// check checks one value against its kind and rule.
func (v Value) check(key string, given any) []finding.Finding {
	// A group of another chart gets one warning, and its keys are not checked.
	if filled, ok := given.(map[string]any); ok && v.Ignored {
		return v.checkIgnored(key, filled)
	}
	// A null removes a default in Helm, and is valid for every kind.
	if given == nil {
		return nil
	}
	// otherKind is the finding of a value of another kind. The cases share it.
	otherKind := wrong(CodeKind, key, "it is "+kindOf(given)+", and has to be "+v.wanted(), "write "+v.wanted())
	var found []finding.Finding
	switch content := given.(type) {
	case bool:
		if v.Kind != Flag {
			return otherKind
		}
	case string:
		if v.Kind != Text {
			return otherKind
		}
		return v.checkText(key, content)
	case []any:
		if v.Kind != TextList && v.Kind != ObjectList {
			return otherKind
		}
		for i, each := range content {
			found = append(found, v.checkElement(fmt.Sprintf("%s[%d]", key, i), each)...)
		}
	case map[string]any:
		if v.Kind != TextMap && v.Kind != Object {
			return otherKind
		}
		// The fields of an object are not declared here. The API server checks
		// them, or the program whose options they are.
		for _, name := range slices.Sorted(maps.Keys(content)) {
			if v.Kind == TextMap {
				found = append(found, v.checkElement(key+"."+name, content[name])...)
			}
		}
	default:
		number, ok := declare.WholeNumber(given)
		if !ok || v.Kind != Count {
			return otherKind
		}
		if number < int64(v.Rule.Least) || number > int64(v.Rule.Most) {
			return wrong(CodeRule, key, fmt.Sprintf("it is %d", number), fmt.Sprintf("choose a number from %d to %d", v.Rule.Least, v.Rule.Most))
		}
	}
	return found
}

// checkIgnored checks the group of another chart. Its crds.install is honoured:
// the release leaves the definitions of that project out. Settings that have a
// key of their own here are named with it.
func (v Value) checkIgnored(key string, filled map[string]any) []finding.Finding {
	rest := maps.Clone(filled)
	if crds, ok := rest["crds"].(map[string]any); ok && v.Definitions {
		if _, wrongKind := crds["install"].(string); wrongKind {
			return wrong(CodeKind, key+".crds.install", "it is a text, and has to be true or false, without quotes", "write true or false, without quotes")
		}
		delete(rest, "crds")
	}
	if len(rest) == 0 {
		return nil
	}
	fix := "it can be left out"
	if _, given := lookup(filled, "configs.tls.certificates"); given {
		fix = "write the certificates of configs.tls.certificates to " + KeyRepositoryCerts + ", which has the same form; the rest can be left out"
	}
	return []finding.Finding{{Code: CodeIgnored, Severity: finding.Warning, Subject: key, Message: "it is not used: " + strings.TrimPrefix(v.About, ignoredPrefix), Fix: fix}}
}

// checkElement checks one element of a list or map, which is an object or a
// text.
func (v Value) checkElement(key string, given any) []finding.Finding {
	text, isText := given.(string)
	_, isObject := given.(map[string]any)
	switch {
	case v.Kind == ObjectList && !isObject:
		return wrong(CodeKind, key, "it is "+kindOf(given)+", and has to be an object", "write its fields below it")
	case v.Kind == ObjectList:
		return nil
	case !isText:
		return wrong(CodeKind, key, "it is "+kindOf(given)+", and has to be a text", "put it in quotes")
	}
	return v.checkText(key, text)
}

// checkText checks a text against the rule.
func (v Value) checkText(key, text string) []finding.Finding {
	shown := strconv.Quote(text)
	// A finding never quotes a secret, not even a wrong one.
	if v.Secret {
		shown = "what is given"
	}
	if len(v.Rule.OneOf) > 0 && !slices.Contains(v.Rule.OneOf, text) || !v.Rule.matches(text) {
		if text == "" {
			return wrong(CodeRule, key, "it is empty", "write "+v.Rule.words())
		}
		return wrong(CodeRule, key, shown+" cannot be used", "write "+v.Rule.words())
	}
	return nil
}

// wanted describes the kind in a sentence.
func (v Value) wanted() string {
	switch v.Kind {
	case Text:
		return "a text, in quotes"
	case Flag:
		return "true or false, without quotes"
	case Count, TextList, TextMap, Object, ObjectList:
	}
	return "a " + v.Kind.String()
}

// kindOf describes the kind of a decoded value.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case map[string]any:
		return "a group of keys"
	case []any:
		return "a list"
	case nil:
		return "nothing"
	}
	return "a number"
}
