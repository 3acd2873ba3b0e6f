package watch

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// eventOfRoute is an HTTPRoute as the watch delivers it, with its number as name and
// version.
const eventOfRoute = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"app-%[1]d","namespace":"bench-03",
"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"resourceVersion":"%[1]d","uid":"6ad0d7de-4c52-4a3e-9d7b-%012[1]d",
"labels":{"app.kubernetes.io/name":"app-%[1]d","app.kubernetes.io/instance":"app-%[1]d-production","app.kubernetes.io/managed-by":"Helm","helm.sh/chart":"application-1.2.3"},
"managedFields":[{"apiVersion":"gateway.networking.k8s.io/v1","fieldsType":"FieldsV1","manager":"helm","operation":"Update","time":"2026-01-02T03:04:05Z",
"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{},"f:helm.sh/chart":{}}},
"f:spec":{".":{},"f:hostnames":{},"f:parentRefs":{},"f:rules":{}}}}]},
"spec":{"hostnames":["app-%[1]d.example"],"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"public","namespace":"infra"}],
"rules":[{"backendRefs":[{"group":"","kind":"Service","name":"app-%[1]d","port":80,"weight":1}],"matches":[{"path":{"type":"PathPrefix","value":"/"}}]}]}}`

// BenchmarkRouteEvent is what the event of a new HTTPRoute costs before the engine gets it.
func BenchmarkRouteEvent(b *testing.B) {
	q := newQueue(10)
	m := newMirror(b.Context(), q, snapshot.HTTPRoute)
	b.ReportAllocs()
	for number := 0; b.Loop(); number++ {
		var object unstructured.Unstructured
		must.Do(b, object.UnmarshalJSON(fmt.Appendf(nil, eventOfRoute, number)))
		must.Get(trimming(&object))(b)
		must.Do(b, m.Add(&object))
		q.drain()
	}
}
