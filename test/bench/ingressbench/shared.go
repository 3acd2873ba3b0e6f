package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	networkingv1 "k8s.io/api/networking/v1"
)

const (
	sharedName = "own"
	// sharedRules is the number of hosts per Ingress.
	sharedRules = 100
	// anyDomain is the domain of the names that a single wildcard route
	// matches.
	anyName   = "any"
	anyDomain = anyName + ".test"
)

// sharedHost and anyHost return names of equal length, so that requests for
// them have the same size.
func sharedHost(i int) string { return fmt.Sprintf("app-%05d.%s.test", i, sharedName) }
func anyHost(i int) string    { return fmt.Sprintf("app-%05d.%s", i, anyDomain) }

// loadShared compares requests for as many names as there are other hosts:
// matched by a single wildcard route, and by a route for each. All have the
// endpoint of the first application, so requests and connections are the same,
// and the number of routes is the only difference.
func (b *bench) loadShared(ctx context.Context) (err error) {
	hosts := b.world.loadHosts()
	if err := b.world.createShared(ctx, hosts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.deleteShared(ctx)) }()
	for i := range hosts {
		if err := b.responses(ctx, plainAddress, sharedHost(i)); err != nil {
			return err
		}
	}
	if err := b.responses(ctx, plainAddress, anyHost(0)); err != nil {
		return err
	}
	f := &b.figures.Request
	if err := b.takeTurns(ctx, b.edge.PID(), b.world.nameTurns(f)); err != nil {
		return err
	}
	b.report("shared: %.1f µs CPU per request for %d names by one route, %.1f µs by as many, with one endpoint", f.Any, hosts, f.Shared)
	return nil
}

// nameTurns returns the loads for one name, for all names by a single route,
// and for all names by a route each. Results go to into.
func (w *world) nameTurns(into *requestFigures) []*turn {
	alone := &turn{name: "load-alone", choose: w.one(), into: &into.Alone}
	one := &turn{name: "load-any", choose: w.sharing(anyHost), into: &into.Any}
	own := &turn{name: "load-shared", choose: w.sharing(sharedHost), into: &into.Shared}
	own.against = map[*turn]*float64{one: &into.SharedTimes, alone: &into.SharedAloneTimes}
	return []*turn{alone, one, own}
}

// sharing returns a generator that selects one of the names at random. All are
// served by the endpoint of the first application.
func (w *world) sharing(host func(int) string) func() query {
	hosts, want := w.loadHosts(), w.of(0).want
	return func() query { return query{host(rand.IntN(hosts)), want} }
}

// createShared creates Ingresses with many hosts each, and one with a wildcard
// host, for the Service of the first application. They have no TLS section,
// because loads use the plain entry point.
func (w *world) createShared(ctx context.Context, hosts int) error {
	create := func(name string, rules ...networkingv1.IngressRule) error {
		ingress := w.ingressOf(name, "", appName(0))
		ingress.Namespace, ingress.Labels = namespaceOf(0), map[string]string{labelMade: sharedName}
		ingress.Spec.TLS = nil
		value := ingress.Spec.Rules[0].IngressRuleValue
		ingress.Spec.Rules = rules
		for i := range rules {
			rules[i].IngressRuleValue = value
		}
		_, err := w.put(ctx, ingress)
		return err
	}
	for begin := 0; begin < hosts; begin += sharedRules {
		var rules []networkingv1.IngressRule
		for i := begin; i < min(begin+sharedRules, hosts); i++ {
			rules = append(rules, networkingv1.IngressRule{Host: sharedHost(i)})
		}
		if err := create(fmt.Sprintf("%s-%d", sharedName, begin), rules...); err != nil {
			return err
		}
	}
	return create(anyName, networkingv1.IngressRule{Host: "*." + anyDomain})
}

// deleteShared deletes the Ingresses of createShared by their label.
func (w *world) deleteShared(ctx context.Context) error {
	return w.drop(ctx, namespaceOf(0), labelMade+"="+sharedName)
}
