package notify

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// eventTimeout bounds the request for an Event.
const eventTimeout = 10 * time.Second

// reportSettings reports settings without effect: in the log and by an Event of the
// ConfigMap.
func (c *Controller) reportSettings(ctx context.Context, found *corev1.ConfigMap, problems []string) {
	if len(problems) == 0 {
		return
	}
	text := strings.Join(problems, "; ")
	c.options.Log.Warn("settings of notifications have no effect", "configmap", found.Namespace+"/"+found.Name, "detail", text)
	c.announce(ctx, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: found.Namespace, Name: found.Name, UID: found.UID},
		Warning:   true, Reason: "SettingsIgnored", Action: "ReadSettings", Note: text, Times: 1,
	})
}

// reportSubscriptions reports subscriptions without effect by an Event of the
// Application, once for each text.
func (c *Controller) reportSubscriptions(ctx context.Context, object *unstructured.Unstructured, problems []string) {
	text := strings.Join(problems, "; ")
	c.mu.Lock()
	before := c.reported[object.GetUID()]
	c.reported[object.GetUID()] = text
	if text == "" {
		delete(c.reported, object.GetUID())
	}
	c.mu.Unlock()
	if text == "" || text == before {
		return
	}
	c.announce(ctx, kube.Notice{
		Regarding: referenceTo(object), Warning: true, Reason: "SubscriptionIgnored", Action: "Notify", Note: text, Times: 1,
	})
}

// reportFailure reports a message that is not sent, in the log and by an Event of the
// Application.
func (c *Controller) reportFailure(ctx context.Context, a *application, one delivery, err error) {
	c.options.Log.Warn("notification failed", "namespace", a.name.Namespace, "application", a.name.Name, "trigger", one.trigger,
		"service", one.to.Service, "recipient", one.to.Recipient, observe.KeyError, err)
	c.announce(ctx, kube.Notice{
		Regarding: referenceTo(a.object), Warning: true, Reason: "NotificationFailed", Action: "Notify", Times: 1,
		Note: one.trigger + " to " + one.to.String() + ": " + err.Error(),
	})
}

// referenceTo names an Application.
func referenceTo(object *unstructured.Unstructured) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.APIVersion, Kind: "Application",
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// announce writes an Event. One that fails is not retried: the log has the same text.
func (c *Controller) announce(ctx context.Context, notice kube.Notice) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	if err := c.options.Cluster.Announce(ctx, c.options.Reporter, notice); err != nil && ctx.Err() == nil {
		c.options.Log.Debug("cannot write an Event", observe.KeyError, err)
	}
}
