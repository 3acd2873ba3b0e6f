package apply

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// Any managedFields and any manifest in Git are read without harm, and an
// object that is certainly as desired stays so when it is read again.
func FuzzCertain(f *testing.F) {
	f.Add(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":"slipway","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"b"}}`)
	f.Add(`{"spec":{"ports":[{"port":80}]}}`,
		`{"spec":{"ports":[{"port":80}]},"metadata":{"managedFields":[{"manager":"slipway","operation":"Apply","fieldsV1":{"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}}}}}}]}}`)
	f.Add(`{"spec":{"tags":["a",1]}}`, `{"metadata":{"managedFields":[7,{"manager":"slipway","operation":"Apply","fieldsV1":{"f:spec":{"f:tags":{"v:\"a\"":{},"v:1":{},"i:0":{},"x":1}}}}]}}`)
	f.Fuzz(func(t *testing.T, wanted, is string) {
		var desired, content map[string]any
		if json.Unmarshal([]byte(wanted), &desired) != nil || json.Unmarshal([]byte(is), &content) != nil || desired == nil || content == nil {
			return
		}
		live := &unstructured.Unstructured{Object: content}
		first := isCertainNoop(sanitize(desired), live)
		if again := isCertainNoop(sanitize(desired), live.DeepCopy()); first != again {
			t.Errorf("it is certain: %t, then %t", first, again)
		}
		CertainChange(live, &unstructured.Unstructured{Object: desired}, live)
		_, _ = migration(live)
		_, _ = stateOf(desired, live)
		resembles(desired, content)
	})
}

// No part of a value that is long enough is left in a text.
func FuzzHide(f *testing.F) {
	f.Add("password: illegal data in hunter2hunter2", "hunter2hunter2")
	f.Add("Value:\"abc\" (3)", "abc")
	f.Add("ünïcode é", "nïcod")
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(text) > maxMessage || strings.Contains(value, "*") {
			return
		}
		told := mask{}.with(value).hide(text)
		for at := 0; at+shown <= len(value); at++ {
			if part := value[at : at+shown]; strings.Contains(told, part) && !strings.Contains(part, "*") {
				t.Errorf("%q is in %q", part, told)
			}
		}
	})
}

func TestHide(t *testing.T) {
	for _, tt := range []struct{ text, value, want string }{
		{"nothing to hide", "secret-value", "nothing to hide"},
		{`got "secret-value", want text`, "secret-value", `got "******", want text`},
		{"…cret-val…", "secret-value", "…******…"},
		{"c2VjcmV0LXZhbHVl is not text", "secret-value", "****** is not text"},
		{"a short one: abc, not in abcd", "abc", "a short one: ******, not in abcd"},
		{"the number 42 at byte 142", "42", "the number ****** at byte 142"},
	} {
		if got := (mask{}).with(tt.value).hide(tt.text); got != tt.want {
			t.Errorf("%q without %q is %q, want %q", tt.text, tt.value, got, tt.want)
		}
	}
}
