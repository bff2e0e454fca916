package pulsartest

import "net/http"

func (b *Broker) adminHandler() http.Handler { return http.NotFoundHandler() }
