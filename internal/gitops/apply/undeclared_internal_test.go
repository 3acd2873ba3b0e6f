package apply

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// The paths are read of the API server's message, one error or many.
func TestUndeclaredFields(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.replicaz: field not declared in schema", []string{".spec.replicaz"}},
		{"failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): errors:\n  .spec.a: field not declared in schema\n  .spec.c[name=\"x: y\"].b: field not declared in schema",
			[]string{".spec.a", `.spec.c[name="x: y"].b`}},
		{".spec.replicas: expected numeric (int or float), got string", nil},
		{"", nil},
	} {
		got := undeclaredFields(&Error{Kind: Invalid, Err: errors.New(test.text)})
		if !slices.Equal(got, test.want) {
			t.Errorf("of %q it reads %q, want %q", test.text, got, test.want)
		}
	}
	if got := undeclaredFields(nil); got != nil {
		t.Errorf("of no error it reads %q", got)
	}
	if got := undeclaredFields(&Error{Message: ".a: field not declared in schema"}); got != nil {
		t.Errorf("of an error without a cause it reads %q", got)
	}
}

// Only what a path leads to is left out, and the object stays as it is.
func TestLeaveOut(t *testing.T) {
	for _, test := range []struct{ name, object, path, want string }{
		{"field", `{"spec":{"a":1,"b":2}}`, ".spec.a", `{"spec":{"b":2}}`},
		{"longer name", `{"spec":{"ab":1,"a":{"x":1}}}`, ".spec.a", `{"spec":{"ab":1}}`},
		{"not there", `{"spec":{"b":2}}`, ".spec.a", ""},
		{"dots in a name", `{"spec":{"a.b":1,"a":{"b":2}}}`, ".spec.a.b", `{"spec":{"a":{}}}`},
		{"element by key", `{"l":[{"name":"x","a":1},{"name":"y","a":1}]}`, `.l[name="y"].a`, `{"l":[{"name":"x","a":1},{"name":"y"}]}`},
		{"element by two keys", `{"l":[{"port":80,"protocol":"TCP","a":1},{"port":80,"protocol":"UDP","a":1}]}`, `.l[port=80,protocol="UDP"].a`,
			`{"l":[{"port":80,"protocol":"TCP","a":1},{"port":80,"protocol":"UDP"}]}`},
		{"key with a default", `{"l":[{"port":80,"a":1},{"port":81,"a":1}]}`, `.l[port=80,protocol="TCP"].a`, `{"l":[{"port":80},{"port":81,"a":1}]}`},
		{"key with a bracket", `{"l":[{"name":"a],\"b","x":1}]}`, `.l[name="a],\"b"].x`, `{"l":[{"name":"a],\"b"}]}`},
		{"element by place", `{"l":[{"a":1},{"a":1}]}`, `.l[1].a`, `{"l":[{"a":1},{}]}`},
		{"text where an element is", `{"l":["a"]}`, `.l[name="a"].x`, ""},
		{"no end", `{"l":[{"name":"a"}]}`, `.l[name="a`, ""},
		{"no value", `{"l":[{"name":"a","x":1}]}`, `.l[name].x`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var object, before map[string]any
			for _, into := range []*map[string]any{&object, &before} {
				must.Do(t, json.Unmarshal([]byte(test.object), into))
			}
			less, ok := request{object: object}.leaveOut([]string{test.path})
			if ok != (test.want != "") {
				t.Fatalf("it is %t, %s", ok, less.body)
			}
			if !reflect.DeepEqual(object, before) {
				t.Error("the object was changed")
			}
			if !ok {
				return
			}
			var want map[string]any
			must.Do(t, json.Unmarshal([]byte(test.want), &want))
			if !reflect.DeepEqual(less.object, want) {
				t.Errorf("it is %s, want %s", less.body, test.want)
			}
		})
	}
}

// FuzzLeaveOut: whatever the API server returns, nothing panics.
func FuzzLeaveOut(f *testing.F) {
	f.Add(`.l[name="y"].a: field not declared in schema`, `{"l":[{"name":"y","a":1}]}`)
	f.Add(`errors:\n  .a[0: field not declared in schema`, `{"a":[1]}`)
	f.Fuzz(func(t *testing.T, text, document string) {
		var object map[string]any
		if json.Unmarshal([]byte(document), &object) != nil || object == nil {
			return
		}
		_, _ = request{object: object}.leaveOut(undeclaredFields(&Error{Err: errors.New(text)}))
	})
}
