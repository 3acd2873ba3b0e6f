// Package appproxy is the API of a runtime about its applications and about
// itself: what the platform asks for in the name of a person.
//
//	service        who may ask, for which Application, and how much at a time
//	applications   list, get, tree, one object, history, events
//	compare        what a sync would change
//	operate        sync, rollback, terminate, refresh, delete
//	watch          one watch of Applications for all who look
//	treewatch      who looks at trees; treefeed reads each when something in it
//	               changed, and scopes follows what they are read from
//	logs           what containers have written, many merged
//	components     the runtime itself, and the logs of its own Pods
//	preflight      the checks of an installed runtime, as they end
//	webhooks       Git hosts, by the name of a source
//
// It promises that only Applications of the agent's namespaces are answered, and
// of the cluster only what belongs to the named Application: objects that carry
// its marks, and what these own by UID. What a sync would read is bounded by the
// project of the Application. No answer has a value of a Secret. A sync records
// who asked.
//
// It refuses requests without the claims of a token, which the router verifies
// and puts into the context. It has no rights of its own beside the agent's, and
// reads no more of the cluster than the agent may.
package appproxy
