package backend_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// TestCases builds the port 80 of the Service shop/cart, or the one that a case
// names, from the objects of each case in testdata. Objects without a namespace
// are in shop, and slices without a label belong to cart.
func TestCases(t *testing.T) {
	archives.Each(t, "testdata/*.txtar", runFile)
}

func runFile(t *testing.T, archive *txtar.Archive) {
	if len(archive.Files)%2 != 0 {
		t.Fatal("each case is followed by what is wanted")
	}
	for i := 0; i < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			input := parseCase(t, string(in.Data))
			result := backend.Build(input.snapshot.View(), input.id, input.options)
			checkResult(t, input, &result)
			if got := show(&result); !matches(got, string(want.Data)) {
				archives.Check(t, want, got)
			}
		})
	}
}

// matches compares line by line. A wanted line that ends with three dots leaves
// the rest open: other packages have their own messages.
func matches(got, want string) bool {
	return slices.EqualFunc(strings.Split(got, "\n"), strings.Split(want, "\n"), func(line, wanted string) bool {
		start, open := strings.CutSuffix(wanted, "...")
		return line == wanted || open && strings.HasPrefix(line, start)
	})
}

// checkResult looks at what every result promises.
func checkResult(t *testing.T, input caseInput, result *backend.Result) {
	t.Helper()
	for _, problem := range result.Backend.Validate() {
		t.Errorf("not valid: %s", problem)
	}
	if result.Closed != nil && len(result.Backend.Endpoints) > 0 {
		t.Error("closed, and it has endpoints")
	}
	again := backend.Build(input.snapshot.View(), input.id, input.options)
	if !reflect.DeepEqual(*result, again) {
		t.Error("the same objects give another result")
	}
}

type caseInput struct {
	snapshot *snapshot.Snapshot
	id       route.BackendID
	options  backend.Options
}

// caseHead is the document of a case that is no object: what is built, and
// with which options.
type caseHead struct {
	Name    string          `json:"name"`
	Port    uint16          `json:"port"`
	Options backend.Options `json:"options"`
}

func parseCase(t *testing.T, text string) caseInput {
	t.Helper()
	input := caseInput{snapshot: snapshot.New(), id: route.BackendID{Namespace: "shop", Name: "cart", Port: 80}}
	for _, kind := range snapshot.CustomKinds() {
		input.snapshot.SetKind(kind, snapshot.KindKnown)
	}
	for _, document := range strings.Split(text, "\n---\n") {
		var head struct {
			Kind string `json:"kind"`
		}
		decode(t, document, &head, false)
		if head.Kind == "" {
			var head caseHead
			decode(t, document, &head, true)
			input.options = head.Options
			if head.Name != "" {
				input.id.Name = head.Name
			}
			if head.Port != 0 {
				input.id.Port = head.Port
			}
			continue
		}
		input.snapshot.Put(parseObject(t, head.Kind, document))
	}
	return input
}

func parseObject(t *testing.T, kind, document string) any {
	t.Helper()
	switch kind {
	case "Service":
		var service corev1.Service
		decode(t, document, &service, true)
		service.Namespace = cmp.Or(service.Namespace, "shop")
		return &service
	case "EndpointSlice":
		var slice discoveryv1.EndpointSlice
		decode(t, document, &slice, true)
		slice.Namespace = cmp.Or(slice.Namespace, "shop")
		if slice.Labels == nil {
			slice.Labels = map[string]string{discoveryv1.LabelServiceName: "cart"}
		}
		return &slice
	case "Secret":
		var secret corev1.Secret
		decode(t, document, &secret, true)
		body := &snapshot.SecretBody{Namespace: cmp.Or(secret.Namespace, "shop"), Name: secret.Name, Type: string(secret.Type), Data: map[string][]byte{}}
		for key, value := range secret.StringData {
			body.Data[key] = filled(t, value)
		}
		return body
	case "Node":
		var node struct {
			Kind, Name, Zone string
			Internal         []netip.Addr
			NotReady         bool
		}
		decode(t, document, &node, true)
		return &snapshot.NodeFacts{Name: node.Name, Zone: node.Zone, Internal: node.Internal, Ready: !node.NotReady}
	}
	var resource struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     map[string]any
	}
	decode(t, document, &resource, true)
	return &snapshot.Resource{
		Kind: snapshot.Kind(kind), Namespace: cmp.Or(resource.Metadata.Namespace, "shop"), Name: resource.Metadata.Name, Spec: resource.Spec,
	}
}

func decode(t *testing.T, document string, into any, strict bool) {
	t.Helper()
	read := yaml.Unmarshal
	if strict {
		read = yaml.UnmarshalStrict
	}
	if err := read([]byte(document), into); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
}

// show writes a result for people, and leaves out what is not set.
func show(result *backend.Result) string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	if result.Closed != nil {
		line("closed %s %s", result.Closed.Reason, result.Closed.Text())
	} else {
		line("%s", result.Endpoints)
	}
	b := result.Backend
	for i := range b.Endpoints {
		e := &b.Endpoints[i]
		at := e.Address.String()
		if e.Host != "" {
			at = fmt.Sprintf("%s port %d", e.Host, e.Port)
		}
		line("%s", strings.TrimSpace(fmt.Sprintf("%s %s %s", e.State, at, e.Zone)))
	}
	if b.Transport != (route.Transport{Protocol: route.ProtocolHTTP1}) && result.Closed == nil {
		line("transport %s", asJSON(b.Transport))
	}
	if b.Balancing != (route.Balancing{}) {
		line("balancing %s", asJSON(b.Balancing))
	}
	if b.Sticky != nil {
		line("sticky %s", asJSON(b.Sticky))
	}
	if b.HealthCheck != nil {
		line("health check %s", asJSON(b.HealthCheck))
	}
	if b.MaxInFlight+b.MaxInFlightPerEndpoint > 0 {
		line("in flight %d, per endpoint %d", b.MaxInFlight, b.MaxInFlightPerEndpoint)
	}
	if result.Timeouts != (route.Timeouts{}) {
		line("timeouts %s", asJSON(result.Timeouts))
	}
	for _, authority := range result.Authorities {
		line("authority %s", authority.ID)
	}
	for _, certificate := range result.Certificates {
		line("certificate %s", certificate.ID)
	}
	for _, refusal := range result.Refusals {
		line("refused %s %s %s", refusal.Object, refusal.Reason, refusal.Text())
	}
	return text.String()
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
