package declare

import (
	"errors"
	"fmt"
	"math"
)

// maxFreeDepth bounds the nesting of free-form content.
const maxFreeDepth = 64

// FreeForm copies a value of any structure. Its numbers are int64 and float64,
// as in every unstructured object. A value that JSON does not have is an error.
func FreeForm(value any) (any, error) { return freeForm(value, 0) }

func freeForm(value any, depth int) (any, error) {
	if depth > maxFreeDepth {
		return nil, fmt.Errorf("lists and groups are nested more than %d deep", maxFreeDepth)
	}
	var err error
	switch v := value.(type) {
	case nil, string, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("a number is not finite")
		}
		return v, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], err = freeForm(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		group := make(map[string]any, len(v))
		for name := range v {
			if group[name], err = freeForm(v[name], depth+1); err != nil {
				return nil, err
			}
		}
		return group, nil
	}
	return nil, fmt.Errorf("a value is %s, which JSON does not have", nameOf(value))
}
