package tenancy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/programs"
)

// view is what tenants and the administrator can read about objects, by their
// names.
type view struct {
	// texts are conditions, messages of operations and Events.
	texts map[string][]string
	// refusals are those that the edge reports, and log is that of the agent.
	refusals map[string][]string
	log      string
}

// logged reports whether a line of the agent's log has a name and a reason.
func (v *view) logged(name, reason string) bool {
	quoted, _ := json.Marshal(reason) // a text has no error
	for line := range strings.Lines(v.log) {
		if strings.Contains(line, name) && strings.Contains(line, strings.Trim(string(quoted), `"`)) {
			return true
		}
	}
	return false
}

// look reads everything. What is in namespace evil is read with the rights of
// evil.
func (w *world) look(ctx context.Context) (*view, error) {
	seen := &view{texts: map[string][]string{}, refusals: map[string][]string{}, log: w.agent.Log.String()}
	for namespace, reader := range map[string]user{evil: w.tenant, bank: w.admin, control: w.admin} {
		for _, kind := range []string{"Application", "ApplicationSet"} {
			found, err := reader.Dynamic.Resource(kinds()[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for i := range found.Items {
				seen.addStatus(&found.Items[i])
			}
		}
		for _, kind := range gatewayKinds {
			found, err := reader.Dynamic.Resource(kinds()[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for i := range found.Items {
				seen.addGatewayConditions(&found.Items[i])
			}
		}
		events, err := reader.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, event := range events.Items {
			about := fmt.Sprintf("%s %s/%s", event.Regarding.Kind, event.Regarding.Namespace, event.Regarding.Name)
			seen.texts[about] = append(seen.texts[about], event.Reason+": "+event.Note)
		}
	}
	return seen, w.lookAtEdge(ctx, seen)
}

// addStatus adds the conditions of an object, and the message of its operation.
func (v *view) addStatus(object *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		v.texts[keyOf(object)] = append(v.texts[keyOf(object)], fmt.Sprint(condition["type"], ": ", condition["message"]))
	}
	if message, found, _ := unstructured.NestedString(object.Object, "status", "operationState", "message"); found {
		v.texts[keyOf(object)] = append(v.texts[keyOf(object)], message)
	}
}

// lookAtEdge adds the refusals that the admin API of the edge reports.
func (w *world) lookAtEdge(ctx context.Context, seen *view) error {
	page, err := programs.Fetch(ctx, "http://"+w.edge["admin"]+trafficreport.ReportPath)
	if err != nil {
		return err
	}
	var report trafficreport.Report
	if err := json.Unmarshal([]byte(page), &report); err != nil {
		return err
	}
	for _, refused := range report.Table.Refusals {
		about := fmt.Sprintf("%s %s/%s", refused.Object.Kind, refused.Object.Namespace, refused.Object.Name)
		seen.refusals[about] = append(seen.refusals[about], "Refused"+string(refused.Reason)+": "+refused.Field+": "+refused.Message)
	}
	return nil
}
