package cache

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// TestTexts: equal texts of two values share their memory, long ones are left alone, and
// the number of texts that are remembered is bounded.
func TestTexts(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	decoded := func() map[string]any {
		text := func(of string) string { return strings.Clone(of) }
		return map[string]any{"a": text("public"), "list": []any{text("public"), int64(80), text(long)}}
	}
	var texts Texts
	first, second := decoded(), decoded()
	texts.Value(first)
	texts.Value(second)
	if fmt.Sprint(first) != fmt.Sprint(decoded()) {
		t.Errorf("the value became %v", first)
	}
	at := func(value any) *byte { return unsafe.StringData(value.(string)) }
	listed := func(of map[string]any, index int) *byte { return at(of["list"].([]any)[index]) }
	if at(first["a"]) != at(second["a"]) || at(first["a"]) != listed(second, 0) || at(first["a"]) != at(texts.One(strings.Clone("public"))) {
		t.Error("equal texts do not share their memory")
	}
	if listed(first, 2) == listed(second, 2) {
		t.Error("a long text is remembered")
	}
	for i := range 3 * maxTexts {
		texts.One(fmt.Sprint(i))
	}
	if len(texts.known) > maxTexts {
		t.Errorf("%d texts are remembered", len(texts.known))
	}
}
