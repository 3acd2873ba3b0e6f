package gateway_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unique"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestCases: the objects of a cluster, what its listeners serve, and the status. The
// files of a case:
//
//	objects.yaml      objects of Gateway API, namespaces and Ingresses; ours is the
//	                  GatewayClass slipway, which every case has
//	services.txt      a Service with port 80, and 53 for UDP, a line: its name, and ready
//	                  or empty
//	certificates.txt  a Secret a line: its name, or the resolver and host that it was
//	                  issued for, as le:a.example; and the name it is for
//	challenges.txt    a challenge by HTTP a line: its token and host
//	authorities.txt   a ConfigMap a line: its name, and valid or empty
//	requests.txt      a request a line: listener, method, host and path, headers; and
//	                  the Services with their weights, or the status, or the redirect
//	rules.txt         a request a line, as in requests.txt; and indented the policies,
//	                  rewrite, timeouts, sticky cookie and backends of its rule
//	connections.txt   a connection a line: listener, and its server name, or - for one
//	                  without TLS; and the mode, with the Services and their weights
//	listeners.txt     a listener of the table a line, with its certificates and the
//	                  host names that share it
//	orders.txt        a certificate request a line: namespace, host, resolver, and the
//	                  objects that request it; ready if it is stored
//	refusals.txt      a refusal a line: object, field and reason
//	status.txt        a condition a line that is not that of an object as it should be,
//	                  and the routes of each listener
//
// The objects of a case are as old as their place in the file. The resolver le has
// challenges by HTTP; dns has challenges by DNS, and is for the namespace infra.
func TestCases(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	archives.Each(t, "testdata/*.txtar", func(t *testing.T, archive *txtar.Archive) { runCase(t, archive, authority) })
}

func runCase(t *testing.T, archive *txtar.Archive, authority *pkitest.Authority) {
	c := &cluster{snapshot: snapshot.New()}
	c.put(&gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway", Generation: generationOf("GatewayClass")},
		Spec:       gatewayv1.GatewayClassSpec{ControllerName: "slipway.dev/gateway-controller"},
	})
	texts := archives.Texts(archive)
	for line := range lines(texts["services.txt"]) {
		words := strings.Fields(line)
		c.addService(words[0], words[1] == "ready")
	}
	for line := range lines(texts["certificates.txt"]) {
		words := strings.Fields(line)
		namespace, name, _ := strings.Cut(words[0], "/")
		if resolver, host, issued := strings.Cut(name, ":"); issued {
			name = certrequest.SecretName(resolver, []string{host})
		}
		c.put(&snapshot.SecretBody{Namespace: namespace, Name: name, Data: authority.Issue(t, words[1]).Data()})
	}
	challenges := map[string][]byte{}
	for line := range lines(texts["challenges.txt"]) {
		words := strings.Fields(line)
		challenges[words[0]] = certrequest.Challenge{Host: words[1], EntryPoint: "web", KeyAuthorization: words[0] + ".thumb"}.Encode()
	}
	c.put(&snapshot.SecretBody{Namespace: home, Name: certrequest.ChallengesSecret, Data: challenges})
	for line := range lines(texts["authorities.txt"]) {
		words := strings.Fields(line)
		namespace, name, _ := strings.Cut(words[0], "/")
		bundle := map[string]any{}
		if words[1] == "valid" {
			bundle[snapshot.AuthorityKey] = authority.PEM
		}
		c.put(&snapshot.Resource{Kind: snapshot.ConfigMap, Namespace: namespace, Name: name, Spec: bundle})
	}
	c.changed = append(c.changed, c.snapshot.SetKind(snapshot.ConfigMap, snapshot.KindKnown)...)
	c.addYAML(t, []byte(texts["objects.yaml"]))
	found := engine.New(c.snapshot, resolve.Options{
		Home: home, Resolvers: map[string]resolve.CertificateResolver{"le": {}, "dns": {Wildcards: true, Namespaces: []string{"infra"}}},
		StrictPrefix: true, Gateways: resolve.GatewayOptions{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.16/28")}},
	})
	result := found.Update(c.changed)
	table := route.NewIndex()
	table.Apply(table.Fit(&result.Change))
	found.NoteRules(&result.Change, nil)
	found.NoteListeners(&result.Change, nil)
	for range found.ChangedConditions() {
	}
	whole := table.Table()
	whole.EntryPoints = []string{"web"}
	compiled := must.Get(program.Compiler{}.Compile(whole))(t)
	for i := range archive.Files {
		switch file := &archive.Files[i]; file.Name {
		case "requests.txt":
			archives.Check(t, file, servedText(t, compiled, string(file.Data)))
		case "connections.txt":
			archives.Check(t, file, connectionsText(t, compiled, string(file.Data)))
		case "rules.txt":
			archives.Check(t, file, rulesText(t, compiled, string(file.Data)))
		case "listeners.txt":
			archives.Check(t, file, listenerText(table.Table()))
		case "orders.txt":
			archives.Check(t, file, ordersText(found))
		case "refusals.txt":
			archives.Check(t, file, refusalText(found))
		case "status.txt":
			archives.Check(t, file, statusText(found))
		}
	}
}

// home is the namespace of the edge.
const home = "slipway-system"

// ordersText returns the certificates that are requested.
func ordersText(found *engine.Engine) string {
	var out strings.Builder
	for _, request := range found.Requests() {
		fmt.Fprintf(&out, "%s %s %s", request.Secret.Namespace, strings.Join(request.Hosts, ","), request.Resolver)
		for _, from := range request.From {
			fmt.Fprintf(&out, " %s %s", from.Object, from.Field)
		}
		if request.Ready {
			out.WriteString(" ready")
		}
		out.WriteString("\n")
	}
	return strings.ReplaceAll(out.String(), "."+gatewayv1.GroupName, "")
}

// cluster is a snapshot, with what changed in it.
type cluster struct {
	snapshot *snapshot.Snapshot
	changed  []snapshot.Ref
	objects  int
}

func (c *cluster) put(object any) { c.changed = append(c.changed, c.snapshot.Put(object)...) }

func (c *cluster) addService(named string, ready bool) {
	namespace, name, _ := strings.Cut(named, "/")
	port, portName := int32(8080), "http"
	udpPort, udpName, udp := int32(5353), "dns", corev1.ProtocolUDP
	c.put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: portName, Port: 80}, {Name: udpName, Port: 53, Protocol: udp}}},
	})
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}, {Name: &udpName, Port: &udpPort, Protocol: &udp}},
	}
	if ready {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}
	}
	c.put(slice)
}

// addYAML puts objects. Each is a second younger than the one before.
func (c *cluster) addYAML(t *testing.T, text []byte) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("---\n")) {
		var head metav1.PartialObjectMetadata
		must.Do(t, yaml.Unmarshal(document, &head))
		var object metav1.Object
		switch head.Kind {
		case "Namespace":
			object = &corev1.Namespace{}
		case "Ingress":
			object = &networkingv1.Ingress{}
		default:
			if object = snapshot.NewGatewayObject(snapshot.Kind(head.Kind + "." + gatewayv1.GroupName)); object == nil {
				t.Fatalf("no kind %q", head.Kind)
			}
		}
		must.Do(t, yaml.UnmarshalStrict(document, object))
		c.objects++
		object.SetCreationTimestamp(metav1.Unix(int64(c.objects), 0))
		object.SetGeneration(generationOf(head.Kind))
		c.put(object)
	}
}

// generationOf returns the generation of the objects of a kind. Others have another one, so
// that a status with that of another object is noticed.
func generationOf(kind string) int64 { return int64(len(kind)) }

// lines returns the lines of a file without comments.
func lines(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !yield(line) {
				return
			}
		}
	}
}

// servedText returns the lines of requests with what serves each.
func servedText(t *testing.T, compiled *program.Program, text string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(text) {
		request, _, found := strings.Cut(line, " -> ")
		if !found {
			out.WriteString(line)
			continue
		}
		fmt.Fprintf(&out, "%s -> %s\n", request, serves(t, compiled, strings.Fields(request)))
	}
	return out.String()
}

// headers are the headers of a request.
type headers map[string]string

func (h headers) Value(name string, i int) (string, bool) {
	value, found := h[name]
	return value, found && i == 0
}

// rulesText returns the lines of requests with the rule of each.
func rulesText(t *testing.T, compiled *program.Program, text string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		rule := lookup(t, compiled, strings.Fields(line))
		if rule == nil {
			out.WriteString("\tnothing\n")
			continue
		}
		add := func(what string, value any) {
			fmt.Fprintf(&out, "\t%s %s\n", what, must.Get(json.Marshal(value))(t))
		}
		for i := range rule.Policies {
			add("policy", rule.Policies[i])
		}
		if rule.Rewrite != nil {
			add("rewrite", rule.Rewrite)
		}
		if rule.Timeouts != (route.Timeouts{}) {
			add("timeouts", rule.Timeouts)
		}
		if rule.Sticky != nil {
			add("sticky", rule.Sticky)
		}
		for i := range rule.Backends {
			add("backend", rule.Backends[i])
			if used, ok := compiled.Backend(rule.Backends[i].Backend); ok && used.Transport.TLS != nil {
				add("transport", used.Transport)
			}
		}
	}
	return out.String()
}

func serves(t *testing.T, compiled *program.Program, words []string) string {
	t.Helper()
	return ruleText(lookup(t, compiled, words))
}

// lookup returns the rule of a request. Explain has to have the same.
func lookup(t *testing.T, compiled *program.Program, words []string) *route.Rule {
	t.Helper()
	listener := parseListener(t, words[0])
	target, query, _ := strings.Cut(words[2], "?")
	host, path, _ := strings.Cut(target, "/")
	given := headers{}
	for _, word := range words[3:] {
		name, value, _ := strings.Cut(word, "=")
		given[name] = value
	}
	request := program.Request{
		Listener: unique.Make(listener), Host: host, Path: "/" + path, Method: words[1], Query: query, Header: given,
	}
	rule := compiled.Lookup(&request).Rule
	var explained *route.Rule
	for _, step := range compiled.Explain(&request) {
		if step.Decision == program.Wins {
			explained = step.Rule
		}
	}
	if explained != rule {
		t.Errorf("%s: explain has %v, and lookup %v", words, explained, rule)
	}
	return rule
}

func parseListener(t *testing.T, text string) route.ListenerID {
	t.Helper()
	text, udp := strings.CutSuffix(text, "/udp")
	at, port, _ := strings.Cut(text, ":")
	namespace, name, _ := strings.Cut(at, "/")
	return route.ListenerID{Namespace: namespace, Name: name, Port: uint16(must.Get(strconv.Atoi(port))(t)), UDP: udp}
}

// ruleText returns what a rule does.
func ruleText(rule *route.Rule) string {
	if rule == nil {
		return "nothing"
	}
	var parts []string
	for i := range rule.Policies {
		name, _ := rule.Policies[i].Named()
		parts = append(parts, name)
	}
	if rule.Response != nil && rule.Response.Redirect != nil {
		return fmt.Sprintf("%d to %+v", rule.Response.Status, *rule.Response.Redirect)
	}
	if rule.Response != nil {
		return strings.Join(append(parts, strconv.Itoa(rule.Response.Status)), " ")
	}
	return strings.Join(append(parts, backendTexts(rule.Backends)...), " ")
}

// backendTexts returns backends with their weights.
func backendTexts(refs []route.BackendRef) []string {
	var texts []string
	for _, ref := range refs {
		name := ref.Backend.Namespace + "/" + ref.Backend.Name
		if ref.Status != 0 {
			name = strconv.Itoa(ref.Status)
		}
		texts = append(texts, fmt.Sprintf("%s=%d", name, ref.Weight))
	}
	return texts
}

// connectionsText returns the lines of connections with what takes each.
func connectionsText(t *testing.T, compiled *program.Program, text string) string {
	t.Helper()
	var out strings.Builder
	for line := range lines(text) {
		connection, _, _ := strings.Cut(line, " -> ")
		words := strings.Fields(connection)
		request := program.TCPRequest{Listener: unique.Make(parseListener(t, words[0])), TLS: words[1] != "-"}
		if request.TLS {
			request.ServerName = words[1]
		}
		served := "nothing"
		if found := compiled.LookupTCP(&request).Route; found != nil {
			served = strings.Join(append([]string{string(found.TLS)}, backendTexts(found.Backends)...), " ")
			if used, ok := compiled.Backend(found.Backends[0].Backend); ok && used.Transport.TLS != nil {
				served += " encrypted"
				if sent := used.Transport.TLS.Certificate; sent != (route.CertificateID{}) {
					served += " with " + sent.String()
				}
			}
		}
		fmt.Fprintf(&out, "%s -> %s\n", connection, served)
	}
	return out.String()
}

// listenerText returns the listeners of a table.
func listenerText(table *route.Table) string {
	var out strings.Builder
	for _, listener := range slices.SortedFunc(slices.Values(table.Listeners), func(a, b *route.Listener) int { return a.ID.Compare(b.ID) }) {
		fmt.Fprintf(&out, "%s %s", listener.ID, listener.Address)
		for _, use := range listener.Certificates {
			known := slices.ContainsFunc(table.Certificates, func(c *route.Certificate) bool { return c.ID == use.Certificate })
			fmt.Fprintf(&out, " %s=%s,%t", cmp.Or(use.Host, "*"), use.Certificate, known)
		}
		if listener.Raw {
			fmt.Fprintf(&out, " raw, tls=%t", listener.TLS)
		}
		if listener.ClientAuth != "" {
			fmt.Fprintf(&out, " clients %s by %v", listener.ClientAuth, listener.ClientAuthorities)
		}
		if len(listener.Hosts) > 1 {
			fmt.Fprintf(&out, " shared by %q", listener.Hosts)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// refusalText returns the parts of objects that are refused.
func refusalText(found *engine.Engine) string {
	var out strings.Builder
	for _, refused := range found.Refusals() {
		fmt.Fprintf(&out, "%s %s %s\n", snapshot.RefOf(refused.Object), refused.Field, refused.Reason)
	}
	return strings.ReplaceAll(out.String(), "."+gatewayv1.GroupName, "")
}

// standard are the conditions that objects have when all is as it should be.
var standard = map[string]bool{"Accepted": true, "Programmed": true, "ResolvedRefs": true, "Conflicted": true}

// statusText returns the conditions that are not those of an object as it should be,
// and the number of routes of listeners.
func statusText(found *engine.Engine) string {
	statuses := maps.Collect(found.ChangedGatewayStatuses())
	var out strings.Builder
	print := func(object string, conditions []metav1.Condition) {
		kind, _, _ := strings.Cut(object, " ")
		for _, c := range conditions {
			healthy := metav1.ConditionTrue
			if c.Type == string(gatewayv1.ListenerConditionConflicted) {
				healthy = metav1.ConditionFalse
			}
			if c.ObservedGeneration != generationOf(kind) {
				fmt.Fprintf(&out, "%s %s of generation %d\n", object, c.Type, c.ObservedGeneration)
			}
			// Accepted holds while only some listeners are served, and others have conditions
			// of their own.
			if c.Status != healthy || c.Reason == string(gatewayv1.GatewayReasonListenersNotValid) || !standard[c.Type] {
				fmt.Fprintf(&out, "%s %s=%s %s\n", object, c.Type, c.Status, c.Reason)
			}
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(statuses), snapshot.Ref.Compare) {
		object := strings.ReplaceAll(ref.String(), "."+gatewayv1.GroupName, "")
		switch status := statuses[ref]; {
		case status.Class != nil:
			print(object, status.Class.Conditions)
		case status.Gateway != nil:
			print(object, status.Gateway.Conditions)
			if sets := status.Gateway.AttachedListenerSets; sets != nil {
				fmt.Fprintf(&out, "%s has %d ListenerSets\n", object, *sets)
			}
			for _, listener := range status.Gateway.Listeners {
				fmt.Fprintf(&out, "%s %s has %d routes of %d kinds\n", object, listener.Name, listener.AttachedRoutes, len(listener.SupportedKinds))
				print(object+" "+string(listener.Name), listener.Conditions)
			}
		case status.Set != nil:
			print(object, status.Set.Conditions)
			for _, listener := range status.Set.Listeners {
				fmt.Fprintf(&out, "%s %s has %d routes of %d kinds\n", object, listener.Name, listener.AttachedRoutes, len(listener.SupportedKinds))
				print(object+" "+string(listener.Name), listener.Conditions)
			}
		case ref.Kind == snapshot.BackendTLSPolicy:
			for _, ancestor := range status.Ancestors {
				fmt.Fprintf(&out, "%s is used at %s\n", object, ancestor.AncestorRef.Name)
				print(object+" at "+string(ancestor.AncestorRef.Name), ancestor.Conditions)
			}
		case snapshot.IsGatewayRoute(ref.Kind):
			for _, parent := range status.Parents {
				print(object+" at "+string(parent.ParentRef.Name), parent.Conditions)
			}
		}
	}
	return out.String()
}
