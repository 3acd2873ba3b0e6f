package controller

import (
	"cmp"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// specification are the paths of Ingresses of other controllers, by host, as the Ingress
// specification has them. It shares no code with what serves.
type specification struct {
	hosts map[string][]specifiedPath
	// others are the hosts with Ingresses of ingress-nginx or routes of Traefik, which
	// the specification does not cover.
	others map[string]bool
}

// specifiedPath is a path of an Ingress.
type specifiedPath struct {
	path    string
	exact   bool
	service string
	created time.Time
	ref     snapshot.Ref
}

func newSpecification(r *reporting) *specification {
	s := &specification{hosts: map[string][]specifiedPath{}, others: map[string]bool{}}
	for _, rule := range r.open.table.server.Table().Rules {
		if object := r.objects[refOfRule(rule.ID)]; object == nil || object.Source != difference.Plain || rule.Match.Path.Type == route.PathRegexp {
			s.others[rule.Host] = true
		}
	}
	for ref, object := range r.objects {
		if object.Source == difference.Plain && ref.Kind == snapshot.Ingress {
			s.add(ref, r.facts.Ingress(ref.Namespace, ref.Name))
		}
	}
	return s
}

// add adds the paths of an Ingress. A path without a type of the specification makes its
// host unknown.
func (s *specification) add(ref snapshot.Ref, ingress *networkingv1.Ingress) {
	for i := range ingress.Spec.Rules {
		rule := &ingress.Spec.Rules[i]
		host := resolve.SpellHost(rule.Host)
		if rule.HTTP == nil || ingress.Spec.DefaultBackend != nil {
			s.others[host] = true
			continue
		}
		for j := range rule.HTTP.Paths {
			path := &rule.HTTP.Paths[j]
			if path.PathType == nil || *path.PathType == networkingv1.PathTypeImplementationSpecific || path.Backend.Service == nil {
				s.others[host] = true
				continue
			}
			s.hosts[host] = append(s.hosts[host], specifiedPath{
				path: path.Path, exact: *path.PathType == networkingv1.PathTypeExact,
				service: serviceText(ref.Namespace, path.Backend.Service.Name), created: ingress.CreationTimestamp.Time, ref: ref,
			})
		}
	}
}

// lookup returns the Service of a request, empty for none, and whether the specification
// decides it. An exact host comes before a wildcard, which stands for one label.
func (s *specification) lookup(host, path string) (service string, known bool) {
	hosts := []string{host}
	if _, parent, found := strings.Cut(host, "."); found {
		hosts = append(hosts, "*."+parent)
	}
	hosts = append(hosts, "")
	for _, each := range hosts {
		if s.others[each] {
			return "", false
		}
	}
	for _, each := range hosts {
		if best := bestPath(s.hosts[each], path); best != nil {
			return best.service, true
		}
	}
	return "", true
}

// bestPath returns the longest path that matches; of equal ones the exact, then the oldest.
func bestPath(paths []specifiedPath, path string) *specifiedPath {
	var found []*specifiedPath
	for i := range paths {
		if paths[i].matches(path) {
			found = append(found, &paths[i])
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *specifiedPath) int {
		exact := 0
		if a.exact != b.exact {
			exact = 1
			if a.exact {
				exact = -1
			}
		}
		return cmp.Or(exact, cmp.Compare(len(b.path), len(a.path)), a.created.Compare(b.created), a.ref.Compare(b.ref))
	})
}

// matches compares element by element: a slash at the end of a prefix does not count.
func (p *specifiedPath) matches(path string) bool {
	if p.exact {
		return p.path == path
	}
	prefix := strings.TrimSuffix(p.path, "/")
	rest, starts := strings.CutPrefix(path, prefix)
	return starts && (rest == "" || rest[0] == '/')
}
