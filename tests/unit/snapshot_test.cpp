#include "service/snapshot.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "service/service.hpp"

using csajit::PreparedSpec;
using csajit::Service;
using csajit::Snapshot;
using csajit::SnapshotList;
using csajit::Spec;

namespace {

std::unique_ptr<Service> make_service() {
  csajit_service_options options{};
  options.struct_size = sizeof(options);
  options.flags = CSAJIT_SERVICE_MEMORY_ONLY;
  auto service = Service::create(options, csajit::Config{});
  REQUIRE(service.ok());
  return std::move(service).value();
}

std::shared_ptr<PreparedSpec> prepared_in(unsigned long long context_id, std::uint32_t head_dim = 128) {
  auto prepared = std::make_shared<PreparedSpec>();
  prepared->context.id = context_id;
  prepared->spec.head_dim = head_dim;
  return prepared;
}

std::unique_ptr<Snapshot> snapshot_of(const Service& service, std::shared_ptr<PreparedSpec> prepared) {
  return std::make_unique<Snapshot>(Snapshot{service.id(), std::move(prepared), nullptr});
}

}  // namespace

TEST_CASE("a snapshot is found by service, spec and context, the latest context first") {
  const auto service = make_service();
  const auto other = make_service();
  CHECK(service->id() != other->id());
  SnapshotList list;
  Snapshot* first = list.add(snapshot_of(*service, prepared_in(1)));
  Snapshot* second = list.add(snapshot_of(*service, prepared_in(2)));
  Snapshot* foreign = list.add(snapshot_of(*other, prepared_in(1)));
  const Spec spec;
  CHECK(list.find(service->id(), spec) == second);
  CHECK(list.find(service->id(), spec, 1) == first);
  CHECK(list.find(service->id(), spec) == first);
  CHECK(list.find(other->id(), spec) == foreign);
  CHECK(list.find(service->id(), spec, 3) == nullptr);
  Spec unknown;
  unknown.head_dim = 129;
  CHECK(list.find(service->id(), unknown) == nullptr);
}

TEST_CASE("snapshots of destroyed services and unloaded contexts go when the thread adds one") {
  const auto service = make_service();
  SnapshotList list;
  {
    const auto doomed = make_service();
    list.add(snapshot_of(*doomed, prepared_in(1)));
  }
  const auto unloaded = prepared_in(2);
  list.add(snapshot_of(*service, unloaded));
  CHECK(list.size() == 1);
  unloaded->dropped = true;
  list.add(snapshot_of(*service, prepared_in(3)));
  CHECK(list.size() == 1);
}

TEST_CASE("a snapshot added again replaces the old one, and a thread keeps a bounded number") {
  const auto service = make_service();
  SnapshotList list;
  list.add(snapshot_of(*service, prepared_in(1)));
  list.add(snapshot_of(*service, prepared_in(1)));
  CHECK(list.size() == 1);
  for (unsigned long long id = 2; id < 1000; ++id) list.add(snapshot_of(*service, prepared_in(id)));
  CHECK(list.size() == 256);
  CHECK(list.find(service->id(), Spec{}, 999) != nullptr);
  CHECK(list.find(service->id(), Spec{}, 1) == nullptr);
}
