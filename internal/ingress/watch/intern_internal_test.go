package watch

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// TestInterner: equal texts of two objects share their memory, and the number of texts that
// are remembered is bounded.
func TestInterner(t *testing.T) {
	object := func() map[string]any {
		text := func(of string) string { return strings.Clone(of) }
		return map[string]any{
			"metadata": map[string]any{"name": text("web")},
			"spec": map[string]any{"parentRefs": []any{map[string]any{"name": text("public"), "port": int64(80)}},
				"note": strings.Repeat("x", maxInterned+1)},
			"status": map[string]any{"parents": []any{text("public")}},
		}
	}
	first, second, texts := object(), object(), &interner{}
	texts.object(first)
	texts.object(second)
	if fmt.Sprint(first) != fmt.Sprint(object()) {
		t.Errorf("the object became %v", first)
	}
	parent := func(of map[string]any) *byte {
		refs := of["spec"].(map[string]any)["parentRefs"].([]any)
		return unsafe.StringData(refs[0].(map[string]any)["name"].(string))
	}
	if parent(first) != parent(second) || parent(first) != unsafe.StringData(first["status"].(map[string]any)["parents"].([]any)[0].(string)) {
		t.Error("equal texts do not share their memory")
	}
	for i := range 3 * maxTexts {
		texts.text(fmt.Sprint(i))
	}
	if len(texts.texts) > maxTexts {
		t.Errorf("%d texts are remembered", len(texts.texts))
	}
}
