package pulsartest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const maxAdminBody = 1 << 20

// adminRequest is a call of an admin route, with what its path and body say.
type adminRequest struct {
	*http.Request
	topic topicName // of routes about a topic
	sub   string
	body  []byte
}

// adminError is a refusal of an admin route.
type adminError struct {
	status int
	reason string
}

func (e *adminError) Error() string { return e.reason }

func adminRefuse(status int, format string, args ...any) error {
	return &adminError{status: status, reason: fmt.Sprintf(format, args...)}
}

func topicMissing(name topicName) error {
	return adminRefuse(http.StatusNotFound, "Topic %s not found", name.full)
}

// adminFunc serves a route under Broker.mu. Its result goes out as JSON; nil is 204, no content.
type adminFunc func(b *Broker, r *adminRequest) (any, error)

// adminRoutes are the routes below /admin/v2 that the broker has. Where a route is about a topic, {t}/{n}/{topic} name it.
var adminRoutes = map[string]adminFunc{
	"GET /clusters":                          func(*Broker, *adminRequest) (any, error) { return []string{clusterName}, nil },
	"GET /brokers/health":                    func(*Broker, *adminRequest) (any, error) { return plainText("ok"), nil },
	"GET /brokers/version":                   func(*Broker, *adminRequest) (any, error) { return plainText("4.0.8"), nil },
	"GET /tenants":                           adminTenants,
	"GET /tenants/{t}":                       adminTenant,
	"PUT /tenants/{t}":                       adminCreateTenant,
	"DELETE /tenants/{t}":                    adminDeleteTenant,
	"GET /namespaces/{t}":                    adminNamespaces,
	"GET /namespaces/{t}/{n}":                adminNamespace,
	"PUT /namespaces/{t}/{n}":                adminCreateNamespace,
	"DELETE /namespaces/{t}/{n}":             adminDeleteNamespace,
	"GET /namespaces/{t}/{n}/topics":         adminTopics,
	"GET /namespaces/{t}/{n}/deduplication":  adminDeduplication,
	"POST /namespaces/{t}/{n}/deduplication": adminSetDeduplication,
	"GET /persistent/{t}/{n}":                adminTopics,
	"GET /persistent/{t}/{n}/partitioned":    adminPartitionedTopics,

	"PUT /persistent/{t}/{n}/{topic}":                                      adminCreateTopic,
	"DELETE /persistent/{t}/{n}/{topic}":                                   adminDeleteTopic,
	"GET /persistent/{t}/{n}/{topic}/partitions":                           adminPartitions,
	"PUT /persistent/{t}/{n}/{topic}/partitions":                           adminCreatePartitioned,
	"POST /persistent/{t}/{n}/{topic}/partitions":                          adminGrow,
	"DELETE /persistent/{t}/{n}/{topic}/partitions":                        adminDeletePartitioned,
	"GET /persistent/{t}/{n}/{topic}/stats":                                adminStats,
	"GET /persistent/{t}/{n}/{topic}/partitioned-stats":                    adminPartitionedStats,
	"GET /persistent/{t}/{n}/{topic}/internalStats":                        adminInternalStats,
	"GET /persistent/{t}/{n}/{topic}/lastMessageId":                        adminLastMessageID,
	"GET /persistent/{t}/{n}/{topic}/messageid/{millis}":                   adminMessageIDAt,
	"PUT /persistent/{t}/{n}/{topic}/unload":                               adminUnload,
	"POST /persistent/{t}/{n}/{topic}/terminate":                           adminTerminate,
	"GET /persistent/{t}/{n}/{topic}/subscriptions":                        adminSubscriptions,
	"PUT /persistent/{t}/{n}/{topic}/subscription/{sub}":                   adminSubscribe,
	"DELETE /persistent/{t}/{n}/{topic}/subscription/{sub}":                adminUnsubscribe,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/resetcursor/{ms}": adminResetToTime,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/resetcursor":      adminResetToID,
	"POST /persistent/{t}/{n}/{topic}/subscription/{sub}/skip_all":         adminSkipAll,

	"GET /schemas/{t}/{n}/{topic}/schema":           adminSchema,
	"GET /schemas/{t}/{n}/{topic}/schema/{version}": adminSchema,
	"GET /schemas/{t}/{n}/{topic}/schemas":          adminSchemas,
	"POST /schemas/{t}/{n}/{topic}/schema":          adminAddSchema,
	"POST /schemas/{t}/{n}/{topic}/version":         adminSchemaVersion,
	"DELETE /schemas/{t}/{n}/{topic}/schema":        adminDeleteSchema,
}

const clusterName = "standalone"

type plainText string

func (b *Broker) adminHandler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve adminFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			result, err := b.serveAdmin(serve, r)
			writeAdmin(w, result, err)
		})
	}
	for route, serve := range adminRoutes {
		method, path, _ := strings.Cut(route, " ")
		handle(method+" /admin/v2"+path, serve)
	}
	handle("GET /lookup/v2/topic/persistent/{t}/{n}/{topic}", adminLookup)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeAdmin(w, nil, adminRefuse(http.StatusNotFound, "pulsartest has no route %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func (b *Broker) serveAdmin(serve adminFunc, r *http.Request) (any, error) {
	if token := b.options.Token; token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		return nil, adminRefuse(http.StatusUnauthorized, "Authentication required")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAdminBody+1))
	if err != nil || len(body) > maxAdminBody {
		return nil, adminRefuse(http.StatusBadRequest, "Body cannot be read, or is larger than %d bytes", maxAdminBody)
	}
	q := &adminRequest{Request: r, sub: r.PathValue("sub"), body: body}
	if local := r.PathValue("topic"); local != "" {
		q.topic, err = parseTopic("persistent://" + q.namespaceName() + "/" + local)
		if err != nil {
			return nil, adminRefuse(http.StatusPreconditionFailed, "Topic name is not valid")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.topic.full != "" && b.namespaces[q.topic.namespace] == nil {
		return nil, adminRefuse(http.StatusNotFound, "Namespace not found")
	}
	return serve(b, q)
}

func writeAdmin(w http.ResponseWriter, result any, err error) {
	status := http.StatusOK
	var refused *adminError
	switch {
	case errors.As(err, &refused):
		status, result = refused.status, map[string]string{"reason": refused.reason}
	case err != nil:
		status, result = http.StatusInternalServerError, map[string]string{"reason": err.Error()}
	case result == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var body []byte
	if text, ok := result.(plainText); ok {
		body = []byte(text)
	} else if body, err = json.Marshal(result); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has left misses it
}

func (r *adminRequest) namespaceName() string { return r.PathValue("t") + "/" + r.PathValue("n") }

// number reads a number in the path.
func (r *adminRequest) number(name string) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil {
		return 0, adminRefuse(http.StatusBadRequest, "%s is no number", name)
	}
	return n, nil
}

// force says whether connected clients are to be disconnected.
func (r *adminRequest) force() bool { return r.URL.Query().Get("force") == "true" }

func adminTenants(b *Broker, _ *adminRequest) (any, error) {
	return slices.Sorted(maps.Keys(b.tenants)), nil
}

func adminTenant(b *Broker, r *adminRequest) (any, error) {
	if !b.tenants[r.PathValue("t")] {
		return nil, adminRefuse(http.StatusNotFound, "Tenant does not exist")
	}
	return map[string]any{"allowedClusters": []string{clusterName}}, nil
}

func adminCreateTenant(b *Broker, r *adminRequest) (any, error) {
	name := r.PathValue("t")
	switch {
	case !validName(name):
		return nil, adminRefuse(http.StatusPreconditionFailed, "Tenant name is not valid")
	case b.tenants[name]:
		return nil, adminRefuse(http.StatusConflict, "Tenant already exist")
	}
	b.tenants[name] = true
	return nil, nil
}

func adminDeleteTenant(b *Broker, r *adminRequest) (any, error) {
	name := r.PathValue("t")
	switch {
	case !b.tenants[name]:
		return nil, adminRefuse(http.StatusNotFound, "Tenant doesn't exist")
	case len(b.namespacesOf(name)) > 0:
		return nil, adminRefuse(http.StatusConflict, "The tenant still has active namespaces")
	}
	delete(b.tenants, name)
	return nil, nil
}

func (b *Broker) namespacesOf(tenant string) []string {
	names := []string{}
	for name := range b.namespaces {
		if strings.HasPrefix(name, tenant+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func adminNamespaces(b *Broker, r *adminRequest) (any, error) {
	if !b.tenants[r.PathValue("t")] {
		return nil, adminRefuse(http.StatusNotFound, "Tenant not found")
	}
	return b.namespacesOf(r.PathValue("t")), nil
}

func adminNamespace(b *Broker, r *adminRequest) (any, error) {
	ns, err := b.namespace(r)
	if err != nil {
		return nil, err
	}
	policies := map[string]any{
		"replication_clusters": []string{clusterName}, "schema_compatibility_strategy": "UNDEFINED",
		"is_allow_auto_update_schema": true, "schema_validation_enforced": false, "deleted": false,
	}
	if ns.deduplication != nil {
		policies["deduplicationEnabled"] = *ns.deduplication
	}
	return policies, nil
}

func (b *Broker) namespace(r *adminRequest) (*namespace, error) {
	if ns := b.namespaces[r.namespaceName()]; ns != nil {
		return ns, nil
	}
	return nil, adminRefuse(http.StatusNotFound, "Namespace does not exist")
}

func adminCreateNamespace(b *Broker, r *adminRequest) (any, error) {
	switch name := r.namespaceName(); {
	case !validName(r.PathValue("n")):
		return nil, adminRefuse(http.StatusPreconditionFailed, "Namespace name is not valid")
	case !b.tenants[r.PathValue("t")]:
		return nil, adminRefuse(http.StatusNotFound, "Tenant does not exist")
	case b.namespaces[name] != nil:
		return nil, adminRefuse(http.StatusConflict, "Namespace already exists")
	default:
		b.namespaces[name] = &namespace{}
		return nil, nil
	}
}

func adminDeleteNamespace(b *Broker, r *adminRequest) (any, error) {
	if _, err := b.namespace(r); err != nil {
		return nil, err
	}
	name := r.namespaceName()
	topics := b.topicsOf(name)
	if len(topics) > 0 && !r.force() {
		return nil, adminRefuse(http.StatusConflict, "Cannot delete non empty namespace")
	}
	for _, topic := range topics {
		b.deleteTopic(b.topics[topic])
	}
	prefix := "persistent://" + name + "/"
	maps.DeleteFunc(b.partitions, func(topic string, _ int) bool { return strings.HasPrefix(topic, prefix) })
	delete(b.namespaces, name)
	return nil, nil
}

func adminDeduplication(b *Broker, r *adminRequest) (any, error) {
	ns, err := b.namespace(r)
	if err != nil || ns.deduplication == nil {
		return nil, err
	}
	return *ns.deduplication, nil
}

func adminSetDeduplication(b *Broker, r *adminRequest) (any, error) {
	ns, err := b.namespace(r)
	if err != nil {
		return nil, err
	}
	on, err := strconv.ParseBool(strings.TrimSpace(string(r.body)))
	if err != nil {
		return nil, adminRefuse(http.StatusBadRequest, "The body must be true or false")
	}
	ns.deduplication = &on
	return nil, nil
}

func adminTopics(b *Broker, r *adminRequest) (any, error) {
	if _, err := b.namespace(r); err != nil {
		return nil, err
	}
	return append([]string{}, b.topicsOf(r.namespaceName())...), nil
}

func adminPartitionedTopics(b *Broker, r *adminRequest) (any, error) {
	if _, err := b.namespace(r); err != nil {
		return nil, err
	}
	names := []string{}
	for name := range b.partitions {
		if strings.HasPrefix(name, "persistent://"+r.namespaceName()+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
