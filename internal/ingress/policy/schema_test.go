package policy

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// installKinds applies the definitions and waits until the API server serves
// them.
func installKinds(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	text := must.Get(v1alpha1.CRDs())(t)
	cluster.Define(t, string(text))
}

// objects are those of a kind, in one namespace.
func objects(cluster *kubetest.Cluster, kind v1alpha1.Kind, namespace string) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: kind.Plural}).Namespace(namespace)
}

// create gives the object as the API server keeps it. Unknown fields are errors,
// as they are for people who use kubectl.
func create(t *testing.T, client dynamic.ResourceInterface, kind, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	fields, err := parseSpec(spec)
	if err != nil {
		t.Fatal(spec, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Group + "/" + v1alpha1.Version, "kind": kind,
		"metadata": map[string]any{"generateName": "x-"}, "spec": deepNumbers(fields),
	}}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
}

// deepNumbers gives numbers the type that unstructured objects have.
func deepNumbers(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = deepNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = deepNumbers(v[name])
		}
	}
	return value
}

// TestSchemaTakes: the API server takes every filter with all its fields, and
// what it gives back is what it was given.
func TestSchemaTakes(t *testing.T) {
	cluster := kubetest.Shared(t)
	installKinds(t, cluster)
	namespace := cluster.Namespace(t)
	w := newWorld(t)
	w.put(t, "leaf", `{filters: [{addPrefix: {prefix: /leaf}}]}`)
	kinds := v1alpha1.Kinds()
	for name, value := range full {
		spec := "filters: [{" + name + ": " + value + "}]"
		made, err := create(t, objects(cluster, kinds[0], namespace), kinds[0].Name, spec)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		kept, _, _ := unstructured.NestedMap(made.Object, "spec")
		stored := &snapshot.Resource{Kind: snapshot.Middleware, Namespace: "shop", Name: "m", Spec: kept}
		fromServer, faults := Middleware(stored, w.source)
		fromText, _ := Middleware(object(t, snapshot.Middleware, "m", spec), w.source)
		if len(faults) > 0 || !reflect.DeepEqual(fromServer, fromText) {
			t.Errorf("%s: %v\n%+v\n%+v", name, faults, fromServer, fromText)
		}
	}
	for _, test := range []struct {
		kind int
		spec string
	}{
		{1, `{minVersion: "1.2", clientAuth: {mode: verify, secrets: [trust]}, alpn: [h2], sniStrict: true, cipherSuites: [X]}`},
		{1, `{}`},
		{2, `{tls: {serverName: a, caSecret: b, certificateSecret: c}, timeouts: {connect: 1s, total: 1h2m3.5s}, http1Only: true}`},
		{3, `{workload: {apiVersion: apps/v1, kind: Deployment, name: web}, revisions: [{name: stable, hash: 7c9f44, replicaSet: u1, weight: 90},
			{name: canary, hash: 5d8b66, replicaSet: u2, weight: 10, commit: 0d1f}], match: {header: {name: X-Slipway-Revision}, cookie: {name: rev, value: canary}}, by: client}`},
		{4, `{strategy: canary, steps: [{weight: 5, hold: 1m, requests: 100}, {weight: 50, pause: true}], guards: {errorPoints: 2, latencyIncrease: 5ms}, match: {header: {name: X-Slipway-Revision}}, readyTimeout: 5m}`},
	} {
		if _, err := create(t, objects(cluster, kinds[test.kind], namespace), kinds[test.kind].Name, test.spec); err != nil {
			t.Errorf("%s: %v", test.spec, err)
		}
	}
}

// TestSchemaDefaults: the API server fills in what Decode fills in.
func TestSchemaDefaults(t *testing.T) {
	cluster := kubetest.Shared(t)
	installKinds(t, cluster)
	kind := v1alpha1.Kinds()[0]
	made := must.Get(create(t, objects(cluster, kind, cluster.Namespace(t)), kind.Name,
		`filters: [{rateLimit: {requests: 1}}, {circuitBreaker: {failurePercent: 50}}, {mirror: {service: {name: a, port: 80}}}, {forwardAuth: {service: {name: a, port: 80}}}]`))(t)
	kept, _, _ := unstructured.NestedMap(made.Object, "spec")
	bare := must.Get(parseSpec(`filters: [{rateLimit: {requests: 1}}, {circuitBreaker: {failurePercent: 50}}, {mirror: {service: {name: a, port: 80}}}, {forwardAuth: {service: {name: a, port: 80}}}]`))(t)
	var fromServer, fromText v1alpha1.MiddlewareSpec
	if problems := append(declare.Decode(kept, &fromServer), declare.Decode(bare, &fromText)...); len(problems) > 0 || !reflect.DeepEqual(fromServer, fromText) {
		t.Errorf("%v\n%+v\n%+v", problems, fromServer, fromText)
	}
	if period, _, _ := unstructured.NestedString(kept["filters"].([]any)[0].(map[string]any), "rateLimit", "period"); period != "1s" {
		t.Errorf("the period is %q", period)
	}
}

// TestSchemaRefuses: what is wrong is refused when it is written, and not only
// when it is used.
func TestSchemaRefuses(t *testing.T) {
	cluster := kubetest.Shared(t)
	installKinds(t, cluster)
	namespace := cluster.Namespace(t)
	kinds := v1alpha1.Kinds()
	for _, test := range []struct {
		kind       int
		spec, says string
	}{
		{0, `{}`, "spec.filters"},
		{0, `{filters: []}`, "spec.filters"},
		{0, `{filters: [{}]}`, "spec.filters[0]"},
		{0, `{filters: [{addPrefix: {prefix: /a}, replacePath: {path: /b}}]}`, "spec.filters[0]"},
		{0, `{filters: [{nonsense: {}}]}`, "nonsense"},
		{0, `{filters: [{addPrefix: {prefix: /a, suffix: b}}]}`, "suffix"},
		{0, `{filters: [{addPrefix: {prefix: a}}]}`, "prefix"},
		{0, `{filters: [{redirectScheme: {scheme: ftp}}]}`, "scheme"},
		{0, `{filters: [{redirectScheme: {scheme: https, status: 200}}]}`, "status"},
		{0, `{filters: [{rateLimit: {requests: 0}}]}`, "requests"},
		{0, `{filters: [{rateLimit: {requests: 1, period: fast}}]}`, "period"},
		{0, `{filters: [{bodyLimit: {maxBytes: 10MB}}]}`, "maxBytes"},
		{0, `{filters: [{bodyLimit: {maxBytes: -1}}]}`, "maxBytes"},
		{0, `{filters: [{ipFilter: {allow: [everybody]}}]}`, "allow"},
		{0, `{filters: [{basicAuth: {secret: ""}}]}`, "secret"},
		{0, `{filters: [{retry: {attempts: 3, on: [always]}}]}`, "on"},
		{0, `{filters: [{errorPages: {statuses: [5xx], service: {name: a, port: 80}, path: /x}}]}`, "statuses"},
		{0, `{filters: [{mirror: {service: {name: a}}}]}`, "port"},
		{0, `{filters: [{requestHeaders: {set: {X-A: 1}}}]}`, "X-A"},
		{1, `{minVersion: "2"}`, "minVersion"},
		{1, `{clientAuth: {mode: maybe}}`, "mode"},
		{2, `{timeouts: {connect: 10}}`, "connect"},
		{3, `{workload: {apiVersion: apps/v1, kind: Deployment, name: web}, revisions: [{name: stable, hash: a, replicaSet: u1}]}`, "revisions"},
		{3, `{workload: {apiVersion: apps/v1, kind: Deployment, name: web}, revisions: [{name: stable, hash: a, replicaSet: u1}, {name: blue, hash: b, replicaSet: u2}]}`, "name"},
		{3, `{workload: {apiVersion: apps/v1, kind: Deployment, name: web}, revisions: [{name: stable, hash: a, replicaSet: u1}, {name: canary, hash: "b c", replicaSet: u2}]}`, "hash"},
		{4, `{strategy: rainbow}`, "strategy"},
		{4, `{steps: [{weight: 101}]}`, "weight"},
	} {
		_, err := create(t, objects(cluster, kinds[test.kind], namespace), kinds[test.kind].Name, test.spec)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.spec, err)
		}
		fields, _ := parseSpec(test.spec)
		if problems := declare.Decode(fields, reflect.New(kinds[test.kind].Spec).Interface()); len(problems) == 0 {
			t.Errorf("%s is refused by the API server and not by Decode", test.spec)
		}
	}
}
