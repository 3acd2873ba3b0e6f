package live

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/must"
)

func decodeRecord(raw []byte) (runtime.Object, error) {
	serializer := jsonOnly().SupportedMediaTypes()[0].Serializer
	return runtime.Decode(serializer, raw)
}

func TestRecord(t *testing.T) {
	for _, tt := range []struct{ name, raw, kind, object, app string }{
		{"an object", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","labels":{"slipway.dev/app":"x"}}}`, "*live.record", "a", "x"},
		// Names are case-sensitive in the API server, and must be here.
		{"a label that is not ours", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","labels":{"Slipway.dev/App":"x"}}}`, "*live.record", "a", ""},
		{"fields that look like others", `{"apiVersion":"e/v1","kind":"Odd","Kind":"Status","METADATA":{"name":"b"},"metadata":{"name":"a","uid":"u"}}`, "*live.record", "a", ""},
		{"a custom kind with items", `{"apiVersion":"e/v1","kind":"AllowList","metadata":{"name":"a","uid":"u"},"items":[{"x":1}]}`, "*live.record", "a", ""},
		{"a list", `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[]}`, "*live.recordList", "", ""},
		{"a failure", `{"apiVersion":"v1","kind":"Status","status":"Failure","code":404,"reason":"NotFound"}`, "*v1.Status", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decoded := must.Get(decodeRecord([]byte(tt.raw)))(t)
			kind := ""
			switch got := decoded.(type) {
			case *record:
				kind = "*live.record"
				if got.Name != tt.object || got.app != tt.app || string(got.raw) != tt.raw {
					t.Errorf("got %+v", got)
				}
			case *recordList:
				kind = "*live.recordList"
			case *metav1.Status:
				kind = "*v1.Status"
			}
			if kind != tt.kind {
				t.Errorf("got a %T, want %s", decoded, tt.kind)
			}
		})
	}
}

// Whatever comes, decodeRecord returns an error or a record, and the items of a list
// are JSON.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{}, {"data":{"k":"}"}}]}`,
		`{"apiVersion":"v1","kind":"Status"}`, `[]`, `{"items":null,"kind":"List"}`, `{"metadata":{"labels":[]}}`, `{"kind":"XList","items":[ { "a":1}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		decoded, err := decodeRecord(raw)
		if err != nil {
			return
		}
		list, ok := decoded.(*recordList)
		if !ok {
			return
		}
		for _, item := range list.Items {
			var content map[string]any
			if err := json.Unmarshal(item.raw, &content); err != nil {
				t.Errorf("an item is not JSON: %q: %v", item.raw, err)
			}
		}
	})
}
