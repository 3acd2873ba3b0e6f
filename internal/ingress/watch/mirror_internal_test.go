package watch

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

func service(name, version string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version}}
}

// taken is what is in the queue, in few words.
func taken(q *queue) []string {
	var found []string
	for _, it := range q.drain() {
		switch {
		case it.silent:
			found = append(found, "listed")
		case it.event.Put != nil:
			metadata, ok := it.event.Put.(metav1.Object)
			if !ok {
				found = append(found, "put")
				continue
			}
			found = append(found, "put "+metadata.GetName()+" "+metadata.GetResourceVersion())
		default:
			found = append(found, "delete "+it.event.Delete.String())
		}
	}
	return found
}

// A list that comes later becomes the changes since the one before.
func TestMirrorRelist(t *testing.T) {
	q := newQueue(100)
	m := newMirror(t.Context(), q, snapshot.Service)
	m.listed = func() { _ = q.push(t.Context(), item{silent: true}) }
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"first list", func() error { return m.Replace([]any{service("a", "1"), service("b", "2")}, "9") },
			[]string{"put a 1", "put b 2", "listed"}},
		{"the same again", func() error { return m.Replace([]any{service("a", "1"), service("b", "2")}, "9") }, []string{"listed"}},
		{"changes", func() error { return m.Replace([]any{service("b", "3"), service("c", "4")}, "9") },
			[]string{"put b 3", "put c 4", "delete Service shop/a", "listed"}},
		{"added", func() error { return m.Add(service("d", "5")) }, []string{"put d 5"}},
		{"added twice", func() error { return m.Add(service("d", "5")) }, nil},
		{"updated", func() error { return m.Update(service("d", "6")) }, []string{"put d 6"}},
		{"deleted", func() error { return m.Delete(service("d", "7")) }, []string{"delete Service shop/d"}},
		{"deleted twice", func() error { return m.Delete(service("d", "7")) }, nil},
		{"back with an old version", func() error { return m.Add(service("d", "6")) }, []string{"put d 6"}},
		{"none left", func() error { return m.Replace(nil, "9") },
			[]string{"delete Service shop/b", "delete Service shop/c", "delete Service shop/d", "listed"}},
	}
	for _, step := range steps {
		must.Do(t, step.do())
		got := taken(q)
		if step.name == "none left" {
			slices.Sort(got[:len(got)-1])
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

// What cannot be queued because the context is done is not taken as known.
func TestMirrorStopped(t *testing.T) {
	q := newQueue(1)
	ctx, cancel := context.WithCancel(t.Context())
	m := newMirror(ctx, q, snapshot.Service)
	m.put(service("a", "1"))
	cancel()
	m.put(service("b", "1"))
	m.remove(name{"shop", "a"})
	if len(m.known) != 1 || m.known[name{"shop", "a"}] != 1 {
		t.Errorf("known is %v, want a alone", m.known)
	}
}

func node(version string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", ResourceVersion: version,
			Labels:      map[string]string{corev1.LabelTopologyZone: "z1", "other": version},
			Annotations: map[string]string{"heartbeat": version},
		},
		Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Message: version},
				{Type: corev1.NodeReady, Status: ready, Message: version},
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
				{Type: corev1.NodeInternalIP, Address: "fd00::1"}, {Type: corev1.NodeExternalIP, Address: "::ffff:192.0.2.1"},
				{Type: corev1.NodeExternalIP, Address: "not an address"},
			},
		},
	}
}

// A node that only updates its heartbeat makes no event.
func TestNodeHeartbeat(t *testing.T) {
	q := newQueue(100)
	m := newMirror(t.Context(), q, snapshot.Node)
	for _, step := range []struct {
		node *corev1.Node
		want int
	}{
		{node("1", corev1.ConditionTrue), 1},
		{node("2", corev1.ConditionTrue), 0},
		{node("3", corev1.ConditionUnknown), 1},
		{node("4", corev1.ConditionUnknown), 0},
		{node("5", corev1.ConditionTrue), 1},
	} {
		version := step.node.ResourceVersion
		m.put(step.node)
		if got := taken(q); len(got) != step.want {
			t.Errorf("version %s made the events %v, want %d", version, got, step.want)
		}
	}
}

func TestNodeFacts(t *testing.T) {
	want := snapshot.NodeFacts{
		Name: "n", Zone: "z1", Ready: true,
		Internal: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		External: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
	}
	tests := []struct {
		name   string
		change func(*corev1.Node)
		ready  bool
	}{
		{"ready", func(*corev1.Node) {}, true},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"not ready", func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionFalse }, false},
		{"unknown", func(n *corev1.Node) { n.Status.Conditions = nil }, false},
		{"going", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		{"excluded", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			given := node("1", corev1.ConditionTrue)
			test.change(given)
			trim(given)
			want := want
			want.Ready = test.ready
			if got := shape(snapshot.Node, given); !reflect.DeepEqual(got, &want) {
				t.Errorf("got %+v, want %+v", got, &want)
			}
		})
	}
}

// full is metadata with everything that an object can have.
func full() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: "cart", UID: "u", ResourceVersion: "7", Generation: 3, GenerateName: "ca",
		CreationTimestamp: metav1.Unix(5, 0),
		Labels:            map[string]string{discoveryv1.LabelServiceName: "cart", "team": "a"},
		Annotations:       map[string]string{"slipway.dev/timeout": "3s", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		OwnerReferences:   []metav1.OwnerReference{{Name: "owner"}}, Finalizers: []string{"f"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "slipway-edge", FieldsV1: metav1.NewFieldsV1("{}")},
			{Manager: "other", Subresource: "status"},
			{Manager: "slipway-edge", Subresource: "status", Operation: "Apply", FieldsV1: metav1.NewFieldsV1("{}")},
		},
	}
}

func TestTrim(t *testing.T) {
	const kept = `"name":"cart","namespace":"shop","uid":"u","resourceVersion":"7","generation":3,"creationTimestamp":"1970-01-01T00:00:05Z"`
	const ours = `,"annotations":{"slipway.dev/timeout":"3s"}`
	port := int32(80)
	tests := []struct {
		name   string
		object any
		want   string
	}{
		{"Ingress", &networkingv1.Ingress{ObjectMeta: full()},
			`{"metadata":{` + kept + ours + `,"managedFields":[{"manager":"slipway-edge","subresource":"status"}]},"spec":{},"status":{"loadBalancer":{}}}`},
		{"IngressClass", &networkingv1.IngressClass{ObjectMeta: full()}, `{"metadata":{` + kept + ours + `},"spec":{}}`},
		{"Service", &corev1.Service{ObjectMeta: full(), Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}}}},
			`{"metadata":{` + kept + ours + `},"spec":{},"status":{"loadBalancer":{}}}`},
		{"EndpointSlice", &discoveryv1.EndpointSlice{
			ObjectMeta: full(), Ports: []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.0.0.1"}, DeprecatedTopology: map[string]string{"a": "b"},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p", ResourceVersion: "8"},
			}},
		}, `{"metadata":{` + kept + `,"labels":{"kubernetes.io/service-name":"cart"}` + ours + `},"addressType":"",` +
			`"endpoints":[{"addresses":["10.0.0.1"],"conditions":{},"targetRef":{"kind":"Pod","name":"p"}}],"ports":[{"port":80}]}`},
		{"metadata", &metav1.PartialObjectMetadata{ObjectMeta: full()}, `{"metadata":{"name":"cart","namespace":"shop","uid":"u","resourceVersion":"7"}}`},
		{"custom", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "a/v1", "kind": "K", "status": "big", "spec": map[string]any{"a": "b"},
			"metadata": map[string]any{"name": "cart", "namespace": "shop", "resourceVersion": "7", "labels": map[string]any{"a": "b"}},
		}}, `{"apiVersion":"a/v1","kind":"K","metadata":{"name":"cart","namespace":"shop","resourceVersion":"7"},"spec":{"a":"b"}}` + "\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				trim(test.object)
				encoded := must.Get(json.Marshal(test.object))(t)
				if got := string(encoded); !sameJSON(t, got, test.want) {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var left, right any
	must.Do(t, errors.Join(json.Unmarshal([]byte(a), &left), json.Unmarshal([]byte(b), &right)))
	return reflect.DeepEqual(left, right)
}
