package status

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const patience = 60 * time.Second

// replica is a Writer with a connection of its own, which sees the Ingresses of
// one namespace. Those of class "ours" are its own, and those of class "shared" are
// another controller's, too.
type replica struct {
	*Writer
	namespace string
	lines     *programs.Output
	registry  *prometheus.Registry
	stop      context.CancelFunc
	gate      *kubetest.Gate
}

// seat is where a replica runs, and as whom; an empty user is the administrator.
type seat struct{ namespace, user string }

// start runs a Writer. prepare calls the Writer before that, with what it
// has to know.
func start(t *testing.T, cluster *kubetest.Cluster, namespace string, options Options, prepare ...func(*Writer)) *replica {
	t.Helper()
	return startAs(t, cluster, seat{namespace: namespace}, options, prepare...)
}

// startAs runs a Writer with the rights of a user.
func startAs(t *testing.T, cluster *kubetest.Cluster, seat seat, options Options, prepare ...func(*Writer)) *replica {
	t.Helper()
	namespace := seat.namespace
	r := &replica{namespace: namespace, lines: &programs.Output{}, gate: &kubetest.Gate{}, registry: prometheus.NewRegistry()}
	connection := cluster.Connect(t, r.gate.Option, func(config *rest.Config) { config.Impersonate.UserName = seat.user })
	options.LeaseNamespace = namespace
	options.Log = slog.New(slog.NewTextHandler(r.lines, nil))
	options.Metrics = NewMetrics(r.registry)
	r.Writer = New(connection, options)
	// Long enough for a busy machine: a leader that is only slow stays leader.
	r.election.Duration, r.election.Renew, r.election.Retry = 8*time.Second, 7*time.Second, 200*time.Millisecond
	for _, told := range prepare {
		told(r.Writer)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() { feed(ctx, cluster, namespace, r.Writer) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return r
}

// feed passes to a Writer what a watch sees, as the engine does.
func feed(ctx context.Context, cluster *kubetest.Cluster, namespace string, w *Writer) {
	see := func(object any) {
		ingress := trimmed(object.(*networkingv1.Ingress))
		class := ingress.Spec.IngressClassName
		if class != nil && *class == "shared" {
			w.SharedIngress(ingress, conditionOf(ingress))
			return
		}
		w.Ingress(ingress, class != nil && *class == "ours", conditionOf(ingress))
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(cluster.Client.NetworkingV1().RESTClient(), "ingresses", namespace, fields.Everything()),
		ObjectType:    &networkingv1.Ingress{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    see,
			UpdateFunc: func(_, object any) { see(object) },
			DeleteFunc: func(object any) {
				if ingress, ok := object.(*networkingv1.Ingress); ok {
					w.Gone(ingress.Namespace, ingress.Name)
				}
			},
		},
	})
	informer.RunWithContext(ctx)
}

// conditionAnnotation has what is wrong with an Ingress of a test.
const conditionAnnotation = "example.com/condition"

func conditionOf(ingress *networkingv1.Ingress) engine.Condition {
	text := ingress.Annotations[conditionAnnotation]
	return engine.Condition{Refused: text == "refused", CertificateNotReady: text == "uncertified", NoEndpoints: text == "unanswered"}
}

// trimmed keeps of the managed fields only who has the status.
func trimmed(ingress *networkingv1.Ingress) *networkingv1.Ingress {
	ingress = ingress.DeepCopy()
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range ingress.ManagedFields {
		if entry.Manager == FieldManager && entry.Subresource == "status" {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: entry.Manager, Subresource: entry.Subresource})
		}
	}
	ingress.ManagedFields = kept
	return ingress
}

// writes is how many writes had that result.
func (r *replica) writes(result string) int {
	return r.count("status_writes_total", result)
}

// count is the value of a counter or gauge with that label, if it has any.
func (r *replica) count(name, label string) int {
	families, err := r.registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && (len(metric.GetLabel()) == 0 || metric.GetLabel()[0].GetValue() == label) {
				return int(metric.GetCounter().GetValue() + metric.GetGauge().GetValue())
			}
		}
	}
	return 0
}

func makeIngress(t *testing.T, cluster *kubetest.Cluster, namespace, name, class string) *networkingv1.Ingress {
	t.Helper()
	return must.Get(cluster.Client.NetworkingV1().Ingresses(namespace).Create(t.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IngressSpec{
			IngressClassName: &class,
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		},
	}, metav1.CreateOptions{}))(t)
}

// setClass gives an Ingress to another class.
func setClass(t *testing.T, cluster *kubetest.Cluster, namespace, name, class string) {
	t.Helper()
	change(t, cluster, namespace, name, func(ingress *networkingv1.Ingress) { ingress.Spec.IngressClassName = &class })
}

// change updates the spec of an Ingress.
func change(t *testing.T, cluster *kubetest.Cluster, namespace, name string, edit func(*networkingv1.Ingress)) {
	t.Helper()
	ingresses := cluster.Client.NetworkingV1().Ingresses(namespace)
	for {
		ingress, err := ingresses.Get(t.Context(), name, metav1.GetOptions{})
		must.Do(t, err)
		edit(ingress)
		if _, err = ingresses.Update(t.Context(), ingress, metav1.UpdateOptions{}); err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// overwrite sets the status as another controller would.
func overwrite(t *testing.T, cluster *kubetest.Cluster, namespace, name, ip string) {
	t.Helper()
	ingresses := cluster.Client.NetworkingV1().Ingresses(namespace)
	for {
		ingress, err := ingresses.Get(t.Context(), name, metav1.GetOptions{})
		must.Do(t, err)
		ingress.Status.LoadBalancer.Ingress = []addressEntry{{IP: ip}}
		if _, err = ingresses.UpdateStatus(t.Context(), ingress, metav1.UpdateOptions{FieldManager: "other"}); err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// show is a list of addresses in one line.
func show(entries []addressEntry) string {
	var parts []string
	for _, entry := range canonical(entries) {
		part := strings.Trim(entry.IP+"/"+entry.Hostname, "/")
		for _, port := range entry.Ports {
			part += strings.TrimRight(fmt.Sprintf(" %d/%s %s", port.Port, port.Protocol, errorOf(port)), " ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// waitStatus waits until all Ingresses of the namespace have that status, and
// returns them.
func waitStatus(t *testing.T, cluster *kubetest.Cluster, namespace string, number int, want string) []*networkingv1.Ingress {
	t.Helper()
	return kubetest.WaitFor(t, cluster.Client.NetworkingV1().Ingresses(namespace), metav1.ListOptions{}, patience,
		func(ingresses []*networkingv1.Ingress) error {
			good := 0
			for _, ingress := range ingresses {
				if show(ingress.Status.LoadBalancer.Ingress) == want {
					good++
				}
			}
			if good != number {
				return fmt.Errorf("%d of %d Ingresses have the status %q", good, number, want)
			}
			return nil
		})
}

// waitEvents waits until the Events about objects of that name are these, each
// as type, reason and text.
func waitEvents(t *testing.T, cluster *kubetest.Cluster, namespace, name string, want ...string) []*eventsv1.Event {
	t.Helper()
	return kubetest.WaitFor(t, cluster.Client.EventsV1().Events(namespace),
		metav1.ListOptions{FieldSelector: "regarding.name=" + name}, patience, func(events []*eventsv1.Event) error {
			got := map[string]bool{}
			for _, event := range events {
				got[event.Type+" "+event.Reason+" "+event.Note] = true
			}
			for _, text := range want {
				if !got[text] {
					return fmt.Errorf("no Event %q", text)
				}
			}
			if len(events) != len(want) {
				return fmt.Errorf("%d Events, want %d", len(events), len(want))
			}
			return nil
		})
}
