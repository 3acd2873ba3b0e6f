package snapshot

import (
	"cmp"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// indexHosts puts an Ingress into the index of hosts, in the place of the one before
// it; either may be nil. It returns the hosts that either has.
func (s *Snapshot) indexHosts(before, next *networkingv1.Ingress) []Ref {
	old, hosts := ruleHosts(before), ruleHosts(next)
	for _, host := range old {
		rest := slices.DeleteFunc(s.ofHost[host], func(object *networkingv1.Ingress) bool { return object == before })
		if len(rest) == 0 {
			delete(s.ofHost, host)
		} else {
			s.ofHost[host] = rest
		}
	}
	for _, host := range hosts {
		s.ofHost[host] = append(s.ofHost[host], next)
	}
	hosts = append(hosts, old...)
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	refs := make([]Ref, 0, len(hosts)+1)
	for _, host := range hosts {
		refs = append(refs, Ref{Kind: IngressHost, Name: host})
	}
	return refs
}

// ruleHosts returns the hosts of the rules of an Ingress, each once.
func ruleHosts(object *networkingv1.Ingress) []string {
	if object == nil {
		return nil
	}
	hosts := make([]string, 0, len(object.Spec.Rules))
	for i := range object.Spec.Rules {
		if host := object.Spec.Rules[i].Host; host != "" {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// IngressesOf returns the Ingresses with rules for a host as it is written there, the
// oldest first.
func (v *View) IngressesOf(host string) []*networkingv1.Ingress {
	v.note(Ref{Kind: IngressHost, Name: host})
	return slices.SortedFunc(slices.Values(v.snapshot.ofHost[host]), func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
