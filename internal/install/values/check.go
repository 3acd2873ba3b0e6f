package values

import (
	"fmt"
	"math"
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
	for _, name := range sortedKeys(given) {
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
		if len(filled) == 0 {
			return nil
		}
		return []finding.Finding{{Code: CodeIgnored, Severity: finding.Warning, Subject: key, Message: "it is not used: " + strings.TrimPrefix(v.About, "Taken and not used. "), Fix: "it can be left out"}}
	}
	// A null removes a default in Helm, and is valid for every kind.
	if given == nil {
		return nil
	}
	// otherKind is the finding of a value of another kind. The cases share it.
	otherKind := wrong(CodeKind, key, "it is "+kindOf(given)+", and has to be "+v.wanted(), "write "+v.wanted())
	switch v.Kind {
	case Flag:
		if _, ok := given.(bool); !ok {
			return otherKind
		}
	case Count:
		number, ok := whole(given)
		if !ok {
			return otherKind
		}
		if number < v.Rule.Least || number > v.Rule.Most {
			return wrong(CodeRule, key, fmt.Sprintf("it is %d", number), fmt.Sprintf("choose a number from %d to %d", v.Rule.Least, v.Rule.Most))
		}
	case TextList, ObjectList:
		return v.checkList(key, given, otherKind)
	case TextMap, Object:
		return v.checkMap(key, given, otherKind)
	case Text:
		text, ok := given.(string)
		if !ok {
			return otherKind
		}
		return v.checkText(key, text)
	}
	return nil
}

// checkList checks a list and its elements.
func (v Value) checkList(key string, given any, otherKind []finding.Finding) []finding.Finding {
	list, ok := given.([]any)
	if !ok {
		return otherKind
	}
	var found []finding.Finding
	for i, each := range list {
		at := key + "[" + strconv.Itoa(i) + "]"
		found = append(found, v.checkElement(at, each, v.Kind == TextList)...)
	}
	return found
}

// checkMap checks a map and its values.
func (v Value) checkMap(key string, given any, otherKind []finding.Finding) []finding.Finding {
	all, ok := given.(map[string]any)
	if !ok {
		return otherKind
	}
	// The fields of an object are not declared here. The API server checks
	// them, or the program whose options they are.
	if v.Kind == Object {
		return nil
	}
	var found []finding.Finding
	for _, name := range sortedKeys(all) {
		found = append(found, v.checkElement(key+"."+name, all[name], true)...)
	}
	return found
}

// checkElement checks one element of a list or map: a text if text is set, an
// object otherwise.
func (v Value) checkElement(key string, given any, text bool) []finding.Finding {
	if !text {
		if _, ok := given.(map[string]any); !ok {
			return wrong(CodeKind, key, "it is "+kindOf(given)+", and has to be an object", "write its fields below it")
		}
		return nil
	}
	word, ok := given.(string)
	if !ok {
		return wrong(CodeKind, key, "it is "+kindOf(given)+", and has to be a text", "put it in quotes")
	}
	return v.checkText(key, word)
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

// whole converts a number as YAML and JSON decoders return it. The bound keeps
// the conversion of a float64 exact.
func whole(value any) (int, bool) {
	switch number := value.(type) {
	case int:
		return number, true
	case int64:
		return int(number), true
	case float64:
		return int(number), number == math.Trunc(number) && math.Abs(number) < 1<<31
	}
	return 0, false
}
