package node

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/devcluster/must"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestDesiredSlices reads testdata/slices: a Service, the Pods of the node, and the slices that follow from them. The
// n-th port of the m-th Pod, both counted from 1, really is port 40000 + 100m + n of 192.0.2.2.
func TestDesiredSlices(t *testing.T) {
	files, err := filepath.Glob("testdata/slices/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path))(t)
			var service corev1.Service
			var views []podView
			for _, f := range archive.Files {
				switch f.Name {
				case "service.yaml":
					unmarshal(t, f.Data, &service)
				case "pods.yaml":
					for document := range strings.SplitSeq(string(f.Data), "---\n") {
						var pod corev1.Pod
						unmarshal(t, []byte(document), &pod)
						views = append(views, viewOf(&pod, len(views)+1))
					}
				}
			}
			got := printSlices(desiredSlices(&service, views))
			last := &archive.Files[len(archive.Files)-1]
			if last.Name != "slices.txt" {
				t.Fatalf("the last file is %s, want slices.txt", last.Name)
			}
			if *update {
				last.Data = []byte(got)
				must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
				return
			}
			if want := string(last.Data); got != want {
				t.Errorf("the slices are\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func unmarshal(t *testing.T, data []byte, to any) {
	t.Helper()
	must.Do(t, yaml.UnmarshalStrict(data, to))
}

func viewOf(pod *corev1.Pod, number int) podView {
	v := podView{pod: pod, ports: portMap{addr: netip.MustParseAddr("192.0.2.2"), list: declaredPorts(pod)}}
	for i := range v.ports.list {
		v.ports.list[i].real = uint16(40000 + 100*number + i + 1)
	}
	return v
}

func printSlices(list []discoveryv1.EndpointSlice) string {
	var out strings.Builder
	// Names are hashes, which mean nothing to a reader; the name of the Pod does.
	slices.SortFunc(list, func(a, b discoveryv1.EndpointSlice) int {
		return strings.Compare(a.Endpoints[0].TargetRef.Name, b.Endpoints[0].TargetRef.Name)
	})
	for _, s := range list {
		e := s.Endpoints[0]
		fmt.Fprintf(&out, "%s/%s %s of %s\n", e.TargetRef.Kind, e.TargetRef.Name, e.TargetRef.UID, *e.NodeName)
		fmt.Fprintf(&out, "  in %s, owned by %s %s\n", s.Namespace, s.OwnerReferences[0].Kind, s.OwnerReferences[0].Name)
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			fmt.Fprintf(&out, "  label %s=%s\n", name, s.Labels[name])
		}
		fmt.Fprintf(&out, "  %s %s ready=%v serving=%v terminating=%v", s.AddressType, strings.Join(e.Addresses, ","),
			*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
		if e.Hostname != nil {
			fmt.Fprintf(&out, " hostname=%s", *e.Hostname)
		}
		out.WriteString("\n")
		for _, p := range s.Ports {
			fmt.Fprintf(&out, "  port %q %s %d", *p.Name, *p.Protocol, *p.Port)
			if p.AppProtocol != nil {
				fmt.Fprintf(&out, " app=%s", *p.AppProtocol)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// Names must differ for every pair of Service and Pod, and stay the same for the same pair.
func TestSliceNames(t *testing.T) {
	seen := map[string]string{}
	for _, service := range []string{"a", "a-b", "b"} {
		for _, pod := range []string{"1", "11", "b-1"} {
			s, p := &corev1.Service{}, &corev1.Pod{}
			s.Name, s.UID, p.UID = service, types.UID("uid-"+service), types.UID(pod)
			name, pair := sliceName(s, p), service+" and "+pod
			if other, taken := seen[name]; taken {
				t.Errorf("%s and %s have the same name", pair, other)
			}
			seen[name] = pair
			if name != sliceName(s.DeepCopy(), p.DeepCopy()) || !strings.HasPrefix(name, service+"-") {
				t.Errorf("the name of %s is %s", pair, name)
			}
		}
	}
}
