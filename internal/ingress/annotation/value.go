package annotation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/route"
)

// maxNames bounds a list of names. Each name costs a lookup on every resolve of
// the Ingress.
const maxNames = 64

var (
	// errEmpty and errLarge are shared by several parsers, so that the advice
	// is the same for all annotations.
	errEmpty = errors.New("it is empty: give a value, or remove the annotation")
	errLarge = fmt.Errorf("it has more than %d bytes", declare.MaxBytes)
)

// parseBool parses a boolean as Traefik's labels do.
func parseBool(text string) (*bool, error) {
	value, err := strconv.ParseBool(text)
	if err != nil {
		return nil, fmt.Errorf("%.64q is neither true nor false", text)
	}
	return &value, nil
}

// parsePlainBool is parseBool for a setting without an unset state.
func parsePlainBool(text string) (bool, error) {
	value, err := parseBool(text)
	return err == nil && *value, err
}

// parsePriority parses the priority of rules. It may be negative, which puts
// the rules behind those without a priority.
func parsePriority(text string) (int32, error) {
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.64q is not a whole number from %d to %d", text, math.MinInt32, math.MaxInt32)
	}
	return int32(value), nil
}

// parseCount parses a limit of at least 1. 0 is refused: it could mean no limit
// or no requests.
func parseCount(text string) (int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 1 {
		return 0, fmt.Errorf("%.64q is not a whole number over 0", text)
	}
	return value, nil
}

// parseDuration parses a timeout. It refuses 0, which stands for unset in the
// table.
func parseDuration(text string) (route.Duration, error) {
	var value v1alpha1.Duration
	if len(text) > 64 || value.UnmarshalText([]byte(text)) != nil || value == 0 {
		return 0, fmt.Errorf("%.64q is not a time over 0: write a number and a unit, such as 500ms, 10s or 1m30s", text)
	}
	return route.Duration(value), nil
}

// parseSeconds parses a number of seconds. The bound of ten years keeps the
// conversion to nanoseconds below from overflowing.
func parseSeconds(text string) (route.Duration, error) {
	const most = 10 * 365 * 24 * 3600
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 || value > most {
		return 0, fmt.Errorf("%.64q is not a number of seconds from 0 to %d", text, most)
	}
	return route.Duration(value * 1e9), nil
}

// oneOf returns a parser for an enumeration. It is case-sensitive; callers
// lower the text first where Traefik ignores case.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		if slices.Contains(words, T(text)) {
			return T(text), nil
		}
		var list []string
		for _, word := range words {
			list = append(list, string(word))
		}
		return "", fmt.Errorf("%.64q is not possible: use one of %s", text, strings.Join(list, ", "))
	}
}

// parseText accepts any text that is not empty and has no control characters.
// The replacement character is refused too: it is a sign of text in another
// encoding.
func parseText(text string) (string, error) {
	switch {
	case text == "":
		return "", errEmpty
	case len(text) > 4096:
		return "", errors.New("it has more than 4096 bytes")
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }):
		return "", errors.New("it has control characters: remove them")
	}
	return text, nil
}

// parseList parses a list separated by commas. Duplicates count once.
func parseList(text string) ([]string, error) {
	if len(text) > declare.MaxBytes {
		return nil, errLarge
	}
	var list []string
	for _, element := range declare.SplitList(text) {
		if _, err := parseText(element); err != nil {
			return nil, err
		}
		if !slices.Contains(list, element) {
			list = append(list, element)
		}
		if len(list) > maxNames {
			return nil, fmt.Errorf("it lists more than %d names: use fewer", maxNames)
		}
	}
	return list, nil
}

// parseEntryPoints parses a list of entry points within the bound of a rule, so
// that the fault is reported on the annotation and not on each rule.
func parseEntryPoints(text string) ([]string, error) {
	list, err := parseList(text)
	if err == nil && len(list) > route.MaxEntryPoints {
		return nil, fmt.Errorf("it lists more than %d entry points: use fewer", route.MaxEntryPoints)
	}
	return list, err
}

// notEmpty refuses an empty list. Traefik ignores it; in our own annotations it is
// more likely a mistake of a template.
func notEmpty(parse func(string) ([]string, error)) func(string) ([]string, error) {
	return func(text string) ([]string, error) {
		list, err := parse(text)
		if err == nil && len(list) == 0 {
			return nil, errEmpty
		}
		return list, err
	}
}

// isYAML distinguishes YAML from a short form: it starts with a bracket or a dash, or
// with a field name and a colon, or has several lines. The short form is not YAML: *
// would be an alias there.
func isYAML(text string) bool {
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, "- ") || strings.Contains(text, "\n") {
		return true
	}
	name, rest, found := strings.Cut(text, ":")
	return found && name != "" && (rest == "" || rest[0] == ' ') &&
		!strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') })
}

// decode parses a struct from YAML or from its short form. A bare YAML list
// stands for the field of the short form, so that `[a, b]` and `a, b` are the
// same.
func decode(text, short string, into any) []refusal.Refusal {
	_, shortened := into.(declare.Shortened)
	switch {
	case text == "":
		return []refusal.Refusal{{Reason: refusal.Invalid, Message: errEmpty.Error()}}
	case isYAML(text):
		value, err := declare.ParseYAML(text)
		if err != nil {
			return []refusal.Refusal{{Reason: refusal.Invalid, Message: err.Error()}}
		}
		if list, ok := value.([]any); ok && short != "" {
			value = map[string]any{short: list}
		}
		if value == nil {
			return []refusal.Refusal{{Reason: refusal.Invalid, Message: errEmpty.Error()}}
		}
		return declare.Decode(value, into)
	case short != "" || shortened:
		return declare.DecodeShort(text, short, into)
	}
	return []refusal.Refusal{{Reason: refusal.Invalid, Message: "it has no short form: write its fields as YAML, such as {name: value}"}}
}
