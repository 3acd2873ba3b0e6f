package traefik_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// reading is one of the three functions: an object, and what it stands for.
type reading func(*snapshot.Resource, reference.Source) (any, []refusal.Refusal)

func TestMiddleware(t *testing.T) {
	eachCase(t, "middleware", snapshot.TraefikMiddleware, func(object *snapshot.Resource, source reference.Source) (any, []refusal.Refusal) {
		policies, faults := traefik.Middleware(object, source)
		return policies, faults
	})
}

func TestTLSOption(t *testing.T) {
	eachCase(t, "tlsoption", snapshot.TraefikTLSOption, func(object *snapshot.Resource, source reference.Source) (any, []refusal.Refusal) {
		conditions, faults := traefik.TLSOption(object, source)
		return conditions, faults
	})
}

func TestServersTransport(t *testing.T) {
	eachCase(t, "transport", snapshot.TraefikServersTransport, func(object *snapshot.Resource, source reference.Source) (any, []refusal.Refusal) {
		transport, faults := traefik.ServersTransport(object, source)
		return transport, faults
	})
}

func TestServersTransportTCP(t *testing.T) {
	eachCase(t, "transporttcp", snapshot.TraefikServersTransportTCP, func(object *snapshot.Resource, source reference.Source) (any, []refusal.Refusal) {
		transport, faults := traefik.ServersTransportTCP(object, source)
		return transport, faults
	})
}

// eachCase runs a function over the cases of each archive: NAME.yaml is the
// spec of the object shop/it, NAME.want what it stands for or its faults.
// cluster.yaml, the first file, has the other objects. A name that starts with
// cross is read where other namespaces are allowed.
func eachCase(t *testing.T, folder string, kind snapshot.Kind, read reading) {
	archives.Each(t, "testdata/"+folder+"/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		cluster := snapshot.New()
		files := archive.Files
		if files[0].Name == "cluster.yaml" {
			fillCluster(t, cluster, files[0].Data)
			files = files[1:]
		}
		for i := 0; i+1 < len(files); i += 2 {
			name, ok := strings.CutSuffix(files[i].Name, ".yaml")
			if !ok || files[i+1].Name != name+".want" {
				t.Fatalf("%s is not followed by its .want", files[i].Name)
			}
			t.Run(name, func(t *testing.T) {
				object := &snapshot.Resource{Kind: kind, Namespace: "shop", Name: "it", Spec: parseYAML(t, files[i].Data)}
				archives.Check(t, &files[i+1], outcome(t, read, object, reference.Source{
					View: cluster.View(), Namespace: "shop", CrossNamespace: strings.HasPrefix(name, "cross"),
				}))
			})
		}
	})
}

// outcome is what an object stands for as JSON, or its faults, each on a line.
func outcome(t *testing.T, read reading, object *snapshot.Resource, source reference.Source) string {
	before := fmt.Sprint(object.Spec)
	result, faults := read(object, source)
	if fmt.Sprint(object.Spec) != before {
		t.Error("the object was changed")
	}
	var lines strings.Builder
	for _, fault := range faults {
		fmt.Fprintf(&lines, "%s %s\n", fault.Reason, fault.Text())
	}
	if len(faults) > 0 {
		return lines.String()
	}
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	policies, several := result.([]route.Policy)
	for _, policy := range policies {
		lines.WriteString(policy.ID.String() + " ")
		policy.ID = route.PolicyID{}
		must.Do(t, encoder.Encode(policy))
	}
	if several {
		return lines.String()
	}
	encoder.SetIndent("", "  ")
	must.Do(t, encoder.Encode(result))
	return lines.String()
}

func parseYAML(t *testing.T, data []byte) map[string]any {
	var fields map[string]any
	must.Do(t, yaml.Unmarshal(data, &fields))
	return fields
}

// fillCluster puts the objects of a file into the cluster.
func fillCluster(t testing.TB, cluster *snapshot.Snapshot, data []byte) {
	cluster.SetKind(snapshot.TraefikMiddleware, snapshot.KindKnown)
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var head struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Type     string
			Data     map[string]string
			Spec     map[string]any
		}
		must.Do(t, yaml.Unmarshal(document, &head))
		switch head.Kind {
		case "Service":
			service := &corev1.Service{}
			must.Do(t, yaml.Unmarshal(document, service))
			cluster.Put(service)
		case "Secret": // the data is plain text here
			body := &snapshot.SecretBody{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name, Type: head.Type, Data: map[string][]byte{}}
			for field, text := range head.Data {
				body.Data[field] = []byte(text)
			}
			cluster.Put(body)
		case "Middleware":
			cluster.Put(&snapshot.Resource{
				Kind: snapshot.TraefikMiddleware, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name, Spec: head.Spec,
			})
		default:
			t.Fatalf("a cluster has no %q here", head.Kind)
		}
	}
}
