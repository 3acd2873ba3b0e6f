package translate_test

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// world is a cluster, and what becomes of its Ingresses.
type world struct {
	snapshot *snapshot.Snapshot
	options  resolve.Options
	backends map[route.BackendID]*backend.Result
	outcomes map[snapshot.Ref]translate.Outcome
}

func newWorld() *world {
	return &world{
		snapshot: snapshot.New(),
		options:  resolve.Options{StrictPrefix: true},
		backends: map[route.BackendID]*backend.Result{},
		outcomes: map[snapshot.Ref]translate.Outcome{},
	}
}

// Look builds a backend as the edge does, once.
func (w *world) Summary(id route.BackendID) resolve.BackendSummary {
	if w.backends[id] == nil {
		result := backend.Build(w.snapshot.View(), id, backend.Options{ExternalNames: w.options.ExternalNames})
		w.backends[id] = &result
	}
	result := w.backends[id]
	return resolve.BackendSummary{Closed: result.Closed, Empty: len(result.Backend.Endpoints) == 0, Timeouts: result.Timeouts}
}

// translate resolves and translates every Ingress.
func (w *world) translate() {
	for namespace, name := range w.snapshot.Names(snapshot.Ingress) {
		site := resolve.Ingress(w.snapshot.View(), namespace, name, w.options, w)
		w.outcomes[site.Ingress] = translate.Ingress(site)
	}
}

// table is the routing table of all Ingresses.
func (w *world) table() *route.Table {
	table := &route.Table{EntryPoints: []string{"web", "websecure"}}
	for _, outcome := range w.outcomes {
		table.Rules = append(table.Rules, outcome.Rules...)
	}
	for _, result := range w.backends {
		table.Backends = append(table.Backends, result.Backend)
	}
	return table
}

func (w *world) compile(t testing.TB) *program.Program {
	t.Helper()
	return must.Get(program.Compiler{}.Compile(w.table()))(t)
}

// refusals are those of all Ingresses, sorted.
func (w *world) refusals() []refusal.Refusal {
	var all []refusal.Refusal
	for _, ref := range slices.SortedFunc(maps.Keys(w.outcomes), snapshot.Ref.Compare) {
		all = append(all, w.outcomes[ref].Refusals...)
	}
	slices.SortStableFunc(all, func(a, b refusal.Refusal) int {
		return cmp.Or(a.Object.Compare(b.Object), strings.Compare(a.Field, b.Field))
	})
	return all
}

// addService puts a Service of one port, and its endpoints if it is ready.
func (w *world) addService(namespace, name string, port int32, portName string, ready bool) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Name: portName, Port: port}}
	w.snapshot.Put(service)
	if !ready {
		return
	}
	target := int32(8080)
	w.snapshot.Put(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &target}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{netip.AddrFrom4([4]byte{10, 0, 0, 1}).String()}}},
	})
}

// addYAML puts objects of Kubernetes and of custom kinds.
func (w *world) addYAML(t testing.TB, text []byte) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("---\n")) {
		var head metav1.PartialObjectMetadata
		must.Do(t, yaml.Unmarshal(document, &head))
		namespace := cmp.Or(head.Namespace, "default")
		switch head.Kind {
		case "":
		case "Ingress":
			object := decode[networkingv1.Ingress](t, document)
			object.Namespace = namespace
			w.snapshot.Put(object)
		case "IngressClass":
			w.snapshot.Put(decode[networkingv1.IngressClass](t, document))
		case "Service":
			object := decode[corev1.Service](t, document)
			object.Namespace = namespace
			w.snapshot.Put(object)
		case "Secret":
			object := decode[corev1.Secret](t, document)
			body := &snapshot.SecretBody{Namespace: namespace, Name: object.Name, Type: string(object.Type), Data: map[string][]byte{}}
			for key, value := range object.StringData {
				body.Data[key] = []byte(value)
			}
			w.snapshot.Put(body)
		default:
			w.addResource(t, document, &head)
		}
	}
}

func (w *world) addResource(t testing.TB, document []byte, head *metav1.PartialObjectMetadata) {
	t.Helper()
	group, _, _ := strings.Cut(head.APIVersion, "/")
	kind := snapshot.Kind(head.Kind + "." + group)
	object := decode[struct{ Spec map[string]any }](t, document)
	w.snapshot.Put(&snapshot.Resource{Kind: kind, Namespace: cmp.Or(head.Namespace, "default"), Name: head.Name, Spec: object.Spec})
	w.snapshot.SetKind(kind, snapshot.KindKnown)
}

func decode[T any](t testing.TB, document []byte) *T {
	t.Helper()
	object := new(T)
	must.Do(t, yaml.Unmarshal(document, object))
	return object
}
