package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// besideName is the name of all objects of the phase, with a number, and their label.
const besideName = "beside"

// ingressHost and routeHost return names of equal length, so that requests for them have
// the same size.
func ingressHost(i int) string { return fmt.Sprintf("app-%05d.ingress.test", i) }
func routeHost(i int) string   { return fmt.Sprintf("app-%05d.gateway.test", i) }

// besideFigures are the CPU time per request of Ingresses and of HTTPRoutes in
// microseconds, over all rounds.
type besideFigures struct {
	Ingress float64 `json:"ingressMicros"`
	Route   float64 `json:"routeMicros"`
	// Times is the median of the ratios of the rounds, half of which are from Low to High.
	Times float64 `json:"medianTimes"`
	Low   float64 `json:"lowerQuartileTimes"`
	High  float64 `json:"upperQuartileTimes"`
}

// loadBeside compares requests for Ingresses with requests for HTTPRoutes that have as many
// hosts, and the same path and endpoint. One edge serves both: the Ingresses on its entry
// point, the routes on a Gateway. The two take turns, and each round gives a ratio, so that
// what slows the machine down for a while affects few of them.
func (b *bench) loadBeside(ctx context.Context) (err error) {
	hosts := b.world.loadHosts()
	defer func() { err = errors.Join(err, b.world.deleteBeside(ctx)) }()
	if err := b.world.createBeside(ctx, hosts); err != nil {
		return err
	}
	f := &besideFigures{}
	ingress := &turn{name: "load-ingress", at: spareAddress, choose: b.world.sharing(ingressHost), into: &f.Ingress}
	route := &turn{name: "load-route", choose: b.world.sharing(routeHost), into: &f.Route}
	turns := []*turn{ingress, route}
	for i := range hosts {
		if err := errors.Join(b.responses(ctx, ingress.address(), ingressHost(i)), b.responses(ctx, route.address(), routeHost(i))); err != nil {
			return err
		}
	}
	for _, turn := range turns {
		if _, err := drive(ctx, b.edge.PID(), turn.address(), turn.choose, b.settings.duration); err != nil {
			return err
		}
	}
	if err := b.takeTurns(ctx, b.edge.PID(), turns); err != nil {
		return err
	}
	f.Low, f.Times, f.High = quartiles(ratios(route.rounds, ingress.rounds))
	b.figures.Beside = f
	b.report("beside: %.1f µs CPU per request for %d hosts of Ingresses, %.1f µs for as many of HTTPRoutes; %.3f times, half of the rounds from %.3f to %.3f",
		f.Ingress, hosts, f.Route, f.Times, f.Low, f.High)
	return nil
}

// ratios returns the costs of a request in each round, divided by those of another load in
// the same round.
func ratios(costs, others []cost) []float64 {
	ratios := make([]float64, len(costs))
	for i := range costs {
		ratios[i] = costs[i].micros() / others[i].micros()
	}
	return ratios
}

// quartiles returns the values below which a quarter, a half and three quarters of the given
// ones are. There must be at least one; it sorts them in place.
func quartiles(values []float64) (low, median, high float64) {
	slices.Sort(values)
	at := func(quarters int) float64 { return values[(len(values)-1)*quarters/4] }
	return at(1), at(2), at(3)
}

// createBeside creates Ingresses with as many hosts as an HTTPRoute can have, and an
// HTTPRoute beside each. All have the Service of the first application.
func (w *world) createBeside(ctx context.Context, hosts int) error {
	for begin := 0; begin < hosts; begin += maxHostnames {
		name := fmt.Sprintf("%s-%d", besideName, begin)
		until := min(begin+maxHostnames, hosts)
		ingress := w.manyHosts(name, ingressHost, begin, until)
		if _, err := w.Client.NetworkingV1().Ingresses(ingress.Namespace).Create(ctx, ingress, metav1.CreateOptions{}); err != nil {
			return err
		}
		for _, route := range routesOf(w.manyHosts(name, routeHost, begin, until)) {
			if _, err := w.httpRoutes(ingress.Namespace).Create(ctx, route, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// manyHosts returns an Ingress of the first application with a rule for each of the hosts
// from a number up to another one.
func (w *world) manyHosts(name string, host func(int) string, from, until int) *networkingv1.Ingress {
	ingress := w.ingressOf(name, "", appName(0))
	ingress.Namespace, ingress.Labels = namespaceOf(0), map[string]string{labelMade: besideName}
	rule := ingress.Spec.Rules[0]
	ingress.Spec.Rules = nil
	for i := from; i < until; i++ {
		rule.Host = host(i)
		ingress.Spec.Rules = append(ingress.Spec.Rules, rule)
	}
	return ingress
}

// deleteBeside deletes the objects of createBeside by their label.
func (w *world) deleteBeside(ctx context.Context) error {
	namespace, options := namespaceOf(0), metav1.ListOptions{LabelSelector: labelMade + "=" + besideName}
	return errors.Join(w.Client.NetworkingV1().Ingresses(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, options),
		w.httpRoutes(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, options))
}
