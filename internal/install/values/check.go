package values

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/declare"
)

// Check reports all problems of the values as such: unknown keys, wrong kinds,
// broken rules, and aliases that disagree. Problems come in the order of the
// keys, conflicts of aliases last.
func (d Document) Check() []Problem {
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
			found = append(found, Problem{Code: CodeAlias, Key: value.Key,
				Reason: value.Key + " and " + value.Alias + " are two spellings of one value, and differ", Fix: "keep " + value.Key + " and leave " + value.Alias + " out"})
		}
	}
	return found
}

// walk checks a mapping against the tree of keys.
func (c Catalogue) walk(at *node, given map[string]any) []Problem {
	var found []Problem
	for _, name := range sortedKeys(given) {
		value, key := given[name], strings.TrimPrefix(at.path+"."+name, ".")
		next := at.child(name)
		switch {
		case next == nil && slices.Contains(c.Open, at.path):
			// Other charts have keys of their own in an open group.
		case next == nil:
			found = append(found, unknown(at, name, key))
		case next.value != nil:
			found = append(found, next.value.check(key, value)...)
		case value == nil:
			// A group with nothing but comments below it decodes to nil.
		default:
			below, ok := value.(map[string]any)
			if !ok {
				found = append(found, Problem{Code: CodeKind, Key: key, Reason: "it is " + kindOf(value) + ", and has to be a group of keys", Fix: "write the keys below it, each on a line of its own"})
				continue
			}
			found = append(found, c.walk(next, below)...)
		}
	}
	return found
}

// unknown is the problem of a key that the chart does not have, with the
// nearest one.
func unknown(at *node, name, key string) Problem {
	var names []string
	for _, each := range at.below {
		names = append(names, each.name)
	}
	fix := "leave it out: here are " + strings.Join(names, ", ")
	if near := declare.Nearest(name, names); near != "" {
		fix = "did you mean " + near + "?"
	}
	return Problem{Code: CodeUnknown, Key: key, Reason: "there is no such value", Fix: fix}
}

// check checks one value against its kind and rule.
func (v Value) check(key string, given any) []Problem {
	// A group of another chart gets one warning, and its keys are not checked.
	if filled, ok := given.(map[string]any); ok && v.Ignored {
		if len(filled) == 0 {
			return nil
		}
		return []Problem{{Code: CodeIgnored, Warning: true, Key: key, Reason: "it is not used: " + strings.TrimPrefix(v.About, "Taken and not used. "), Fix: "it can be left out"}}
	}
	// A null removes a default in Helm, and is valid for every kind.
	if given == nil {
		return nil
	}
	// wrong is the problem of a value of another kind. The cases share it.
	wrong := []Problem{{Code: CodeKind, Key: key, Reason: "it is " + kindOf(given) + ", and has to be " + v.wanted(), Fix: "write " + v.wanted()}}
	switch v.Kind {
	case Flag:
		if _, ok := given.(bool); !ok {
			return wrong
		}
	case Count:
		number, ok := whole(given)
		if !ok {
			return wrong
		}
		if number < v.Rule.Least || number > v.Rule.Most {
			return []Problem{{Code: CodeRule, Key: key, Reason: fmt.Sprintf("it is %d", number), Fix: fmt.Sprintf("choose a number from %d to %d", v.Rule.Least, v.Rule.Most)}}
		}
	case TextList, ObjectList:
		return v.checkList(key, given, wrong)
	case TextMap, Object:
		return v.checkMap(key, given, wrong)
	case Text:
		text, ok := given.(string)
		if !ok {
			return wrong
		}
		return v.checkText(key, text)
	}
	return nil
}

// checkList checks a list and its elements.
func (v Value) checkList(key string, given any, wrong []Problem) []Problem {
	// wrong is the problem of a value that is no list at all.
	list, ok := given.([]any)
	if !ok {
		return wrong
	}
	var found []Problem
	for i, each := range list {
		at := key + "[" + strconv.Itoa(i) + "]"
		found = append(found, v.checkElement(at, each, v.Kind == TextList)...)
	}
	return found
}

// checkMap checks a map and its values.
func (v Value) checkMap(key string, given any, wrong []Problem) []Problem {
	all, ok := given.(map[string]any)
	if !ok {
		return wrong
	}
	// The fields of an object are not declared here. The API server checks
	// them, or the program whose options they are.
	if v.Kind == Object {
		return nil
	}
	var found []Problem
	for _, name := range sortedKeys(all) {
		found = append(found, v.checkElement(key+"."+name, all[name], true)...)
	}
	return found
}

// checkElement checks one element of a list or map: a text if text is set, an
// object otherwise.
func (v Value) checkElement(key string, given any, text bool) []Problem {
	if !text {
		if _, ok := given.(map[string]any); !ok {
			return []Problem{{Code: CodeKind, Key: key, Reason: "it is " + kindOf(given) + ", and has to be an object", Fix: "write its fields below it"}}
		}
		return nil
	}
	word, ok := given.(string)
	if !ok {
		return []Problem{{Code: CodeKind, Key: key, Reason: "it is " + kindOf(given) + ", and has to be a text", Fix: "put it in quotes"}}
	}
	return v.checkText(key, word)
}

// checkText checks a text against the rule.
func (v Value) checkText(key, text string) []Problem {
	shown := strconv.Quote(text)
	// A finding never quotes a secret, not even a wrong one.
	if v.Secret {
		shown = "what is given"
	}
	if len(v.Rule.OneOf) > 0 && !slices.Contains(v.Rule.OneOf, text) || !v.Rule.matches(text) {
		if text == "" {
			return []Problem{{Code: CodeRule, Key: key, Reason: "it is empty", Fix: "write " + v.Rule.words()}}
		}
		return []Problem{{Code: CodeRule, Key: key, Reason: shown + " cannot be used", Fix: "write " + v.Rule.words()}}
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
