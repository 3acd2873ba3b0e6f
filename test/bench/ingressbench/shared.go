package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	sharedName = "shared"
	// sharedRules is how many hosts one Ingress has.
	sharedRules = 100
)

func sharedHost(i int) string { return fmt.Sprintf("%s-%05d.bench.test", sharedName, i) }

// loadShared compares requests for one host with those for as many hosts as
// there are others, which all have the endpoint of that one. So it tells what the
// number of routes costs, apart from that of connections.
func (b *bench) loadShared(ctx context.Context) (err error) {
	hosts := b.world.loadHosts()
	if err := b.world.createShared(ctx, hosts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.deleteShared(ctx)) }()
	for i := range hosts {
		if err := b.answers(ctx, sharedHost(i)); err != nil {
			return err
		}
	}
	f := b.figures
	err = b.takeTurns(ctx, b.edge.PID(), []*turn{
		{name: "load-one-again", choose: b.world.one(), into: &f.SharedOne},
		{name: "load-shared", choose: b.world.sharing(), into: &f.Shared},
	})
	if err == nil {
		b.tell("shared: %.1f µs CPU per request for one host, %.1f µs for %d hosts with its endpoint", f.SharedOne, f.Shared, hosts)
	}
	return err
}

// sharing chooses one of the hosts that have the endpoint of the first
// application.
func (w *world) sharing() func() question {
	hosts, want := w.loadHosts(), w.of(0).want
	return func() question { return question{sharedHost(rand.IntN(hosts)), want} }
}

// createShared makes Ingresses of many hosts each, for the Service of the first
// application.
func (w *world) createShared(ctx context.Context, hosts int) error {
	namespace := namespaceOf(0)
	for begin := 0; begin < hosts; begin += sharedRules {
		ingress := w.ingressOf(fmt.Sprintf("%s-%d", sharedName, begin), sharedHost(begin), appName(0))
		ingress.Labels = map[string]string{labelMade: sharedName}
		ingress.Spec.TLS = nil
		only := ingress.Spec.Rules[0]
		for i := begin + 1; i < min(begin+sharedRules, hosts); i++ {
			ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{Host: sharedHost(i), IngressRuleValue: only.IngressRuleValue})
		}
		if _, err := w.Client.NetworkingV1().Ingresses(namespace).Create(ctx, ingress, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// deleteShared takes them away again.
func (w *world) deleteShared(ctx context.Context) error {
	return w.Client.NetworkingV1().Ingresses(namespaceOf(0)).DeleteCollection(ctx,
		metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labelMade + "=" + sharedName})
}
