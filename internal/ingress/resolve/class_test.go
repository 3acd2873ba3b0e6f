package resolve_test

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

func TestClass(t *testing.T) {
	set := func(text string) *string { return &text }
	tests := []struct {
		name       string
		class      *string
		annotation *string
		options    resolve.Options
		ours       bool
	}{
		{name: "none", ours: true},
		{name: "empty annotation", annotation: set(""), ours: true},
		{name: "our annotation", annotation: set("slipway"), ours: true},
		{name: "traefik's annotation", annotation: set("traefik"), ours: true},
		{name: "another's annotation", annotation: set("nginx")},
		{name: "annotation is the option", annotation: set("edge"), options: resolve.Options{IngressClass: "edge"}, ours: true},
		{name: "annotation is not the option", annotation: set("traefik"), options: resolve.Options{IngressClass: "edge"}},
		{name: "none with an option", options: resolve.Options{IngressClass: "edge"}},
		{name: "class of our controller", class: set("ours"), ours: true},
		{name: "class of another controller", class: set("foreign")},
		{name: "class that does not exist", class: set("missing")},
		{name: "empty class", class: set("")},
		{name: "class is the option", class: set("ours"), options: resolve.Options{IngressClass: "ours"}, ours: true},
		{name: "class is not the option", class: set("ours"), options: resolve.Options{IngressClass: "edge"}},
		{name: "class of another controller is adopted", class: set("foreign"), options: resolve.Options{IngressClass: "foreign"}, ours: true},
		{name: "adopted class that does not exist", class: set("missing"), options: resolve.Options{IngressClass: "missing"}},
		{name: "class where none are read", class: set("ours"), options: resolve.Options{NoClassLookup: true}},
		{name: "class without cluster scope", class: set("ours"), options: resolve.Options{NoClusterScope: true}},
		{name: "annotation where no class is read", annotation: set("slipway"), options: resolve.Options{NoClassLookup: true}, ours: true},
		{name: "spec wins for us", class: set("ours"), annotation: set("nginx"), ours: true},
		{name: "spec wins against us", class: set("foreign"), annotation: set("slipway")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ingress := ingressOf("a.example.com")
			ingress.Spec.IngressClassName = test.class
			if test.annotation != nil {
				ingress.Annotations["kubernetes.io/ingress.class"] = *test.annotation
			}
			s := snapshotOf(ingress, serviceOf("app"), classOf("ours", resolve.ControllerName), classOf("foreign", "example.com/other"))
			site := resolved(s, test.options)
			if site.Ours != test.ours {
				t.Errorf("ours: %v", site.Ours)
			}
			if !test.ours && (len(site.Paths) > 0 || len(site.Hosts) > 0 || len(site.Refusals) > 0) {
				t.Errorf("not ours and has %+v", site)
			}
		})
	}
}

func classOf(name, controller string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}}
}

// TestReads: an Ingress that is not ours has read what could make it ours.
func TestReads(t *testing.T) {
	name := "missing"
	ingress := ingressOf("a.example.com")
	ingress.Spec.IngressClassName = &name
	view := snapshotOf(ingress).View()
	resolve.Ingress(view, "shop", "cart", resolve.Options{}, &looks{})
	want := []snapshot.Ref{{Kind: snapshot.Ingress, Namespace: "shop", Name: "cart"}, {Kind: snapshot.IngressClass, Name: "missing"}}
	if got := slices.SortedFunc(view.Reads(), snapshot.Ref.Compare); !slices.Equal(got, want) {
		t.Errorf("it read %v", got)
	}
	view = snapshot.New().View()
	if site := resolve.Ingress(view, "shop", "cart", resolve.Options{}, &looks{}); site.Ours {
		t.Error("an Ingress that does not exist is ours")
	}
	if got := slices.Collect(view.Reads()); !slices.Equal(got, want[:1]) {
		t.Errorf("it read %v", got)
	}
}

// TestDeleted: an Ingress is served until it is gone.
func TestDeleted(t *testing.T) {
	ingress := ingressOf("a.example.com")
	now := metav1.NewTime(time.Now())
	ingress.DeletionTimestamp = &now
	if site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{}); !site.Ours || len(site.Paths) != 1 {
		t.Errorf("%+v", site)
	}
}
