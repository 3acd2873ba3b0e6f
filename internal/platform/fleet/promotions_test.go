package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// ofProduct is an application of a product.
func ofProduct(number int64, project, name, product string) *platformv1.ReportEvent {
	event := inProject(number, project, name)
	event.GetApplication().Labels[wire.ProductLabel] = product
	return event
}

// TestReadApplications: a runtime reads the applications of a product in another one by
// a rule that names it, and by nothing else.
func TestReadApplications(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		owner, _ := w.join(t, "prod", "east")
		reader, _ := w.join(t, "test", "west")
		other, _ := w.join(t, "other", "north")
		read := func(by clients, product string) (string, error) {
			response, err := by.agent.ReadApplications(t.Context(), connect.NewRequest(&platformv1.ReadApplicationsRequest{Runtime: "prod", Product: product}))
			if err != nil {
				return "", err
			}
			var names []string
			for _, one := range response.Msg.GetApplications() {
				names = append(names, one.GetName())
			}
			if response.Msg.GetStale() {
				names = append(names, "stale")
			}
			return strings.Join(slices.Sorted(slices.Values(names)), " "), nil
		}
		refused := func(by clients, product string) {
			t.Helper()
			if got, err := read(by, product); connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "applications, get, PROJECT/*, allow") {
				t.Errorf("%s is read: %q, %v", product, got, err)
			}
		}
		message := beat()
		// A default role is for users.
		message.Rights = &platformv1.RightsPolicy{Config: map[string]string{"policy.default": "role:readonly"}}
		heartbeat(t, owner, message)
		report(t, owner, "s", begin(1), ofProduct(2, "shop", "web", "shop"), ofProduct(3, "shop", "db", "shop"), ofProduct(4, "bank", "vault", "bank"), ofProduct(5, "bank", "till", "mixed"),
			ofProduct(6, "shop", "cart", "mixed"), inProject(7, "shop", "none"), end(8))
		refused(reader, "shop")
		message.Rights.Config["policy.csv"] = "p, runtime:test, applications, get, shop/*, allow"
		heartbeat(t, owner, message)
		w.clock.pass(2 * time.Second) // the policy is kept for a second
		if got, err := read(reader, "shop"); got != "db web" {
			t.Errorf("read are %q, %v", got, err)
		}
		// Another project, a part of a product, and another runtime.
		refused(reader, "bank")
		refused(reader, "mixed")
		refused(other, "shop")
		if got, err := read(reader, "none"); got != "" || err != nil {
			t.Errorf("a product without applications has %q, %v", got, err)
		}
		w.clock.pass(time.Hour)
		if got, err := read(reader, "shop"); connect.CodeOf(err) != connect.CodeUnauthenticated && got != "db stale web" {
			t.Errorf("an offline runtime has %q, %v", got, err)
		}
	})
}
