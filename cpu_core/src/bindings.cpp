// The Python extension hptp._core: the only file that knows Python.
//
// Three layers: functions on raw addresses, the printable Problem and Plan, and permute_plain(), a
// plain C function for small arrays, because at a microsecond a call an argument parser would show.
// NumPy and PyTorch are looked up once somebody has imported them; nothing here imports either.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "hptp.hpp"
#include "hptp/convert.hpp"
#include "hptp/dtype.hpp"
#include "hptp/in_place.hpp"
#include "hptp/isa.hpp"
#include "hptp/nt_copy.hpp"

namespace py = pybind11;

namespace {

using Sizes = std::vector<int64_t>;

// Below this, giving up the GIL costs more than the copy.
constexpr int64_t kKeepGilBytes = 16 << 10;

// Above this, the cost of the general path does not matter. Below, no NPU could win: it would have
// to be dispatched and its buffers filled in the time in which a CPU has finished.
constexpr int64_t kMaxPlainBytes = 4 << 20;

[[noreturn]] void raise(const char* class_name, const std::string& message) {
  const py::object type = py::module_::import("hptp.errors").attr(class_name);
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

std::string quote(py::handle value) { return py::cast<std::string>(py::repr(value)); }

py::tuple to_tuple(const int64_t* values, int count) {
  py::tuple tuple(count);
  for (int i = 0; i < count; ++i) tuple[i] = values[i];
  return tuple;
}

// ---- perm
// ----------------------------------------------------------------------------------------

// NumPy's bool was usable as an index before NumPy 2.4.
bool is_bool(py::handle entry) {
  const std::string type = Py_TYPE(entry.ptr())->tp_name;
  return PyBool_Check(entry.ptr()) || type == "numpy.bool" || type == "numpy.bool_";
}

// An entry of perm as an index; floats and bools are refused, anything with __index__ is welcome.
int64_t axis_of(py::handle entry, const py::object& perm) {
  if (is_bool(entry) || !PyIndex_Check(entry.ptr())) {
    raise("PermutationError", "perm " + quote(perm) + " must hold integers, not " + quote(entry));
  }
  const Py_ssize_t axis = PyNumber_AsSsize_t(entry.ptr(), nullptr);  // clips what is out of range
  if (axis == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return axis;
}

Sizes normalize_perm(const py::object& perm, int ndim) {
  if (!py::isinstance<py::iterable>(perm)) {
    raise("PermutationError", "perm must be a sequence of integers, not " + quote(perm));
  }
  const py::tuple entries(perm);
  if (static_cast<int>(entries.size()) != ndim) {
    raise("PermutationError", "perm " + quote(perm) + " has " + std::to_string(entries.size()) +
                                  " entries for " + std::to_string(ndim) + " axes");
  }
  Sizes axes;
  std::vector<bool> seen(static_cast<size_t>(ndim));
  for (py::handle entry : entries) {
    int64_t axis = axis_of(entry, perm);
    if (axis < -ndim || axis >= ndim) {
      raise("PermutationError", "perm " + quote(perm) + " names axis " + quote(entry) +
                                    " of an array with " + std::to_string(ndim) + " axes");
    }
    if (axis < 0) axis += ndim;
    if (seen[static_cast<size_t>(axis)]) {
      raise("PermutationError", "perm " + quote(perm) + " repeats axis " + std::to_string(axis));
    }
    seen[static_cast<size_t>(axis)] = true;
    axes.push_back(axis);
  }
  return axes;
}

// ---- Problem
// -------------------------------------------------------------------------------------

const int64_t* check_strides(const char* name, const std::optional<Sizes>& strides, size_t ndim) {
  if (!strides) return nullptr;
  if (strides->size() != ndim) {
    throw py::value_error(std::string(name) + " " + quote(py::cast(*strides)) + " has " +
                          std::to_string(strides->size()) + " entries for " + std::to_string(ndim) +
                          " axes");
  }
  return strides->data();
}

hptp::Problem make_problem(int64_t elem_bytes, const Sizes& shape, const py::object& perm,
                           const std::optional<Sizes>& src_strides_bytes,
                           const std::optional<Sizes>& dst_strides_bytes) {
  if (elem_bytes < 0) {
    throw py::value_error("elem_bytes is " + std::to_string(elem_bytes) + ", below 0");
  }
  const Sizes axes = normalize_perm(perm, static_cast<int>(shape.size()));
  hptp::Problem problem;
  const hptp::Status status = hptp::make_problem(
      static_cast<uint64_t>(elem_bytes), static_cast<int>(shape.size()), shape.data(), axes.data(),
      check_strides("src_strides_bytes", src_strides_bytes, shape.size()),
      check_strides("dst_strides_bytes", dst_strides_bytes, shape.size()), &problem);
  if (status == hptp::Status::overlap) {
    raise("OutputError", "elements of the destination share memory: strides " +
                             quote(py::cast(dst_strides_bytes)) + " bytes");
  }
  if (status != hptp::Status::ok) {
    raise("PlanError", std::string(hptp::to_string(status)) + ": shape " + quote(py::cast(shape)) +
                           ", " + std::to_string(elem_bytes) + "-byte elements");
  }
  return problem;
}

// The problem as a call on a source-ordered array: the axes by falling source stride.
std::vector<int> source_order(const hptp::Problem& problem) {
  std::vector<int> order;
  for (int i = 0; i < problem.ndim; ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::abs(problem.axes[a].src_stride_bytes) > std::abs(problem.axes[b].src_stride_bytes);
  });
  return order;
}

py::tuple src_shape(const hptp::Problem& problem) {
  Sizes shape;
  for (int i : source_order(problem)) shape.push_back(problem.axes[i].size);
  return to_tuple(shape.data(), problem.ndim);
}

py::tuple problem_perm(const hptp::Problem& problem) {
  Sizes perm(static_cast<size_t>(problem.ndim));
  int64_t position = 0;
  for (int i : source_order(problem)) perm[static_cast<size_t>(i)] = position++;
  return to_tuple(perm.data(), problem.ndim);
}

std::string problem_repr(const hptp::Problem& problem) {
  return "<Problem: " + std::to_string(problem.elem_bytes) + "-byte elements, shape " +
         quote(src_shape(problem)) + ", perm " + quote(problem_perm(problem)) + ">";
}

void bind_problem(py::module_& m) {
  const auto column = [](int64_t hptp::Axis::* field) {
    return [field](const hptp::Problem& problem) {
      Sizes values;
      for (int i = 0; i < problem.ndim; ++i) values.push_back(problem.axes[i].*field);
      return to_tuple(values.data(), problem.ndim);
    };
  };
  py::class_<hptp::Problem>(m, "Problem")
      .def(py::init(&make_problem), py::arg("elem_bytes"), py::arg("shape"), py::arg("perm"),
           py::arg("src_strides_bytes") = py::none(), py::arg("dst_strides_bytes") = py::none())
      .def_readonly("elem_bytes", &hptp::Problem::elem_bytes)
      .def_property_readonly("shape", column(&hptp::Axis::size))
      .def_property_readonly("src_strides_bytes", column(&hptp::Axis::src_stride_bytes))
      .def_property_readonly("dst_strides_bytes", column(&hptp::Axis::dst_stride_bytes))
      .def_property_readonly("src_shape", &src_shape)
      .def_property_readonly("perm", &problem_perm)
      .def_property_readonly("nbytes", &hptp::num_bytes)
      .def(
          "__eq__", [](const hptp::Problem& a, const hptp::Problem& b) { return a == b; },
          py::is_operator())
      .def("__hash__", [](const hptp::Problem& problem) { return hptp::hash(problem); })
      .def("__repr__", &problem_repr);
}

// ---- Plan and the calls on addresses
// -------------------------------------------------------------

void check(hptp::Status status) {
  if (status == hptp::Status::ok) return;
  if (status == hptp::Status::out_of_memory) throw std::bad_alloc();
  if (status == hptp::Status::overlap) raise("OutputError", hptp::to_string(status));
  throw py::value_error(hptp::to_string(status));
}

void execute_plan(const hptp::Plan& plan, uintptr_t src, uintptr_t dst) {
  hptp::Status status;
  {
    const py::gil_scoped_release release;
    status = hptp::execute(plan, reinterpret_cast<const void*>(src), reinterpret_cast<void*>(dst));
  }
  check(status);
}

// Nothing here changes a plan.
std::shared_ptr<hptp::Plan> cached_plan(const hptp::Problem& problem, int num_threads) {
  const int threads =
      hptp::resolve_threads(num_threads, static_cast<uint64_t>(hptp::num_bytes(problem)));
  const auto plan = hptp::plan_cache().get(problem, threads);
  if (plan == nullptr) throw std::bad_alloc();
  return std::const_pointer_cast<hptp::Plan>(plan);
}

void bind_plan(py::module_& m) {
  py::class_<hptp::Plan, std::shared_ptr<hptp::Plan>>(m, "Plan")
      .def(py::init(&cached_plan), py::arg("problem"), py::arg("num_threads") = 0)
      .def_readonly("problem", &hptp::Plan::problem)
      .def_property_readonly("kernel",
                             [](const hptp::Plan& plan) { return std::string(plan.kernel); })
      .def_property_readonly("isa", [](const hptp::Plan& plan) { return std::string(plan.isa); })
      .def_readonly("num_threads", &hptp::Plan::num_threads)
      .def_property_readonly("tile",
                             [](const hptp::Plan& plan) -> py::object {
                               if (plan.method != hptp::Method::tiles) return py::none();
                               return py::make_tuple(plan.rows.elems, plan.columns.elems);
                             })
      .def("describe", &hptp::describe)
      .def("execute", &execute_plan, py::arg("src_ptr"), py::arg("dst_ptr"))
      .def("__repr__",
           [](const hptp::Plan& plan) { return "<Plan: " + hptp::describe(plan) + ">"; });
}

// The caller has checked that the two do not overlap.
void permute_addresses(uintptr_t src, const std::optional<Sizes>& src_strides_bytes, uintptr_t dst,
                       const std::optional<Sizes>& dst_strides_bytes, const Sizes& shape,
                       const py::object& perm, int64_t elem_bytes, int num_threads) {
  const hptp::Problem problem =
      make_problem(elem_bytes, shape, perm, src_strides_bytes, dst_strides_bytes);
  hptp::Status status;
  {
    const py::gil_scoped_release release;
    status = hptp::execute_cached(problem, reinterpret_cast<const void*>(src),
                                  reinterpret_cast<void*>(dst), num_threads);
  }
  check(status);
}

void permute_in_place(uintptr_t data, const std::optional<Sizes>& strides_bytes, const Sizes& shape,
                      const py::object& perm, int64_t elem_bytes, int num_threads) {
  const Sizes axes = normalize_perm(perm, static_cast<int>(shape.size()));
  const int64_t* strides = check_strides("strides_bytes", strides_bytes, shape.size());
  hptp::Status status;
  {
    const py::gil_scoped_release release;
    status = hptp::permute_in_place(reinterpret_cast<void*>(data), static_cast<size_t>(elem_bytes),
                                    static_cast<int>(shape.size()), shape.data(), axes.data(),
                                    strides, num_threads);
  }
  if (status == hptp::Status::not_in_place) {
    raise("OutputError", std::string(hptp::to_string(status)) + ": shape " +
                             quote(py::cast(shape)) + ", perm " + quote(py::cast(axes)));
  }
  check(status);
}

// ---- Conversion
// ----------------------------------------------------------------------------------

hptp::DType dtype_named(const std::string& name) {
  constexpr const char* kNames[] = {"int8",    "int16",    "int32",   "int64",
                                    "uint8",   "uint16",   "uint32",  "uint64",
                                    "float16", "bfloat16", "float32", "float64"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) throw py::value_error("'" + name + "' is not a number type");
  return static_cast<hptp::DType>(found - kNames);
}

using Coefficients = std::optional<std::vector<float>>;

const float* check_coefficients(const char* name, const Coefficients& values, int64_t count) {
  if (!values) return nullptr;
  if (static_cast<int64_t>(values->size()) != count) {
    throw py::value_error(std::string(name) + " has " + std::to_string(values->size()) +
                          " values, not " + std::to_string(count));
  }
  return values->data();
}

void permute_convert(uintptr_t src, const std::optional<Sizes>& src_strides_bytes,
                     const std::string& src_dtype, uintptr_t dst,
                     const std::optional<Sizes>& dst_strides_bytes, const std::string& dst_dtype,
                     const Sizes& shape, const py::object& perm, int num_threads,
                     const Coefficients& scale, const Coefficients& shift, int axis) {
  const int ndim = static_cast<int>(shape.size());
  const Sizes axes = normalize_perm(perm, ndim);
  if (axis >= ndim) {
    throw py::value_error("axis " + std::to_string(axis) + " of an array with " +
                          std::to_string(ndim) + " axes");
  }
  const int64_t count = axis < 0 ? 1 : shape[static_cast<size_t>(axis)];
  hptp::Affine affine;
  affine.scale = check_coefficients("scale", scale, count);
  affine.shift = check_coefficients("shift", shift, count);
  affine.axis = axis;
  const hptp::Conversion& conversion =
      hptp::conversion_of(dtype_named(src_dtype), dtype_named(dst_dtype));
  const int64_t* src_strides = check_strides("src_strides_bytes", src_strides_bytes, shape.size());
  const int64_t* dst_strides = check_strides("dst_strides_bytes", dst_strides_bytes, shape.size());
  hptp::Status status;
  {
    const py::gil_scoped_release release;
    status = hptp::permute_convert_strided(
        reinterpret_cast<const void*>(src), reinterpret_cast<void*>(dst), conversion, ndim,
        shape.data(), axes.data(), src_strides, dst_strides, num_threads, affine);
  }
  if (status == hptp::Status::unsupported) {
    throw py::value_error("scale and shift need a source of at most 32 bits, not " + src_dtype);
  }
  check(status);
}

hptp::Strided strided(const Sizes& shape, const Sizes& strides_bytes, int64_t elem_bytes) {
  if (shape.size() > hptp::kMaxDims) check(hptp::Status::bad_ndim);
  hptp::Strided memory{elem_bytes, static_cast<int>(shape.size()), {}, {}};
  std::copy(shape.begin(), shape.end(), memory.shape);
  if (!hptp::set_strides(&memory, check_strides("strides_bytes", strides_bytes, shape.size()))) {
    check(hptp::Status::size_overflow);
  }
  return memory;
}

bool overlaps(uintptr_t a, const Sizes& a_shape, const Sizes& a_strides_bytes, uintptr_t b,
              const Sizes& b_shape, const Sizes& b_strides_bytes, int64_t elem_bytes) {
  return hptp::overlaps(
      reinterpret_cast<const void*>(a), strided(a_shape, a_strides_bytes, elem_bytes),
      reinterpret_cast<const void*>(b), strided(b_shape, b_strides_bytes, elem_bytes));
}

using CopyFunction = void (*)(const void*, void*, int64_t, int);

template <CopyFunction copy>
void copy_addresses(uintptr_t src, uintptr_t dst, int64_t nbytes, int num_threads) {
  const py::gil_scoped_release release;
  copy(reinterpret_cast<const void*>(src), reinterpret_cast<void*>(dst), nbytes, num_threads);
}

// What the benchmark compares with.
void bind_copies(py::module_& m) {
  m.def("nt_copy", &copy_addresses<&hptp::copy_non_temporal>, py::arg("src_ptr"),
        py::arg("dst_ptr"), py::arg("nbytes"), py::arg("num_threads"));
  m.def("memcpy", &copy_addresses<&hptp::copy_cached>, py::arg("src_ptr"), py::arg("dst_ptr"),
        py::arg("nbytes"), py::arg("num_threads"));
}

// The sets of kernels this CPU can run; the last is the best.
py::tuple isas() {
  py::list names;
  for (const hptp::Isa isa : hptp::kAllIsas) {
    if (hptp::is_available(isa)) names.append(hptp::to_string(isa));
  }
  return py::tuple(names);
}

py::dict plan_cache_info() {
  const hptp::PlanCacheInfo info = hptp::plan_cache().info();
  py::dict dict;
  dict["hits"] = info.hits;
  dict["misses"] = info.misses;
  dict["size"] = info.size;
  dict["capacity"] = info.capacity;
  return dict;
}

// ---- permute() for plain NumPy arrays and PyTorch tensors
// ------------------------------------------------------------

// NumPy's C API, or null while nobody has imported NumPy: then no object can be an array.
const py::detail::npy_api* numpy_api() {
  static const py::detail::npy_api* api = nullptr;
  if (api == nullptr) {
    const auto numpy =
        py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("numpy").ptr()));
    if (numpy) api = &py::detail::npy_api::get();
  }
  return api;
}

// Built-in types of fixed size without Python objects inside. Structures, StringDType and types of
// extension packages have other numbers.
bool is_plain(const PyObject* descr) {
  const int type = py::detail::array_descriptor_proxy(descr)->type_num;
  constexpr int kLastBuiltIn = 23;  // float16
  return type >= 0 && type <= kLastBuiltIn && type != py::detail::npy_api::NPY_OBJECT_ &&
         type != py::detail::npy_api::NPY_VOID_;
}

int64_t item_bytes(const PyObject* descr) {
  return py::detail::npy_api::get().PyArray_RUNTIME_VERSION_ < 0x12
             ? py::detail::array_descriptor1_proxy(descr)->elsize
             : py::detail::array_descriptor2_proxy(descr)->elsize;
}

// Reads a tuple or list of exact ints; false for anything else, however legal.
bool plain_perm(PyObject* perm, int ndim, int64_t* axes) {
  if (!PyTuple_CheckExact(perm) && !PyList_CheckExact(perm)) return false;
  if (PySequence_Fast_GET_SIZE(perm) != ndim) return false;
  PyObject** entries = PySequence_Fast_ITEMS(perm);
  for (int i = 0; i < ndim; ++i) {
    if (!PyLong_CheckExact(entries[i])) return false;
    int overflow = 0;
    const long axis = PyLong_AsLongAndOverflow(entries[i], &overflow);
    if (overflow != 0) return false;
    axes[i] = axis < 0 ? axis + ndim : axis;
  }
  return true;
}

hptp::Status run(const hptp::Problem& problem, const void* src, void* dst) {
  if (hptp::num_bytes(problem) <= kKeepGilBytes) {
    return hptp::execute_cached(problem, src, dst, 0);
  }
  const py::gil_scoped_release release;
  return hptp::execute_cached(problem, src, dst, 0);
}

// Why a fast path does not end with an array: Python's error is set, or somebody else should try.
enum class Declined { error, not_plain };

PyObject* decline(Declined why) {
  if (why == Declined::error) return nullptr;
  PyErr_Clear();
  Py_RETURN_NOTIMPLEMENTED;
}

// The call on a source that has been read; the result's shape goes to out_shape.
struct PlainCall {
  int ndim;
  int64_t axes[hptp::kMaxDims];
  int64_t shape[hptp::kMaxDims];
  int64_t strides_bytes[hptp::kMaxDims];
  hptp::Problem problem;

  bool make(int64_t elem_bytes, PyObject* perm, const int64_t* dst_strides_bytes = nullptr) {
    if (!plain_perm(perm, ndim, axes)) return false;
    const hptp::Status valid = hptp::make_problem(static_cast<uint64_t>(elem_bytes), ndim, shape,
                                                  axes, strides_bytes, dst_strides_bytes, &problem);
    return valid == hptp::Status::ok && hptp::num_bytes(problem) <= kMaxPlainBytes;
  }
};

hptp::Strided memory_of(const py::detail::PyArray_Proxy* array) {
  hptp::Strided memory{item_bytes(array->descr), array->nd, {}, {}};
  std::copy_n(array->dimensions, array->nd, memory.shape);
  std::copy_n(array->strides, array->nd, memory.strides_bytes);
  return memory;
}

// A new reference to `out`, an array of the result's type and shape, with the result in it.
PyObject* permute_plain_into(const py::detail::npy_api& numpy, const py::detail::PyArray_Proxy* x,
                             PyObject* perm, PlainCall* call, PyObject* out) {
  if (Py_TYPE(out) != numpy.PyArray_Type_) return decline(Declined::not_plain);
  const auto* target = py::detail::array_proxy(out);
  const bool is_writeable = (target->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_) != 0;
  if (!is_writeable || target->descr != x->descr || target->nd != x->nd) {
    return decline(Declined::not_plain);
  }
  const hptp::Strided memory = memory_of(target);
  if (!call->make(memory.elem_bytes, perm, memory.strides_bytes)) {
    return decline(Declined::not_plain);
  }
  for (int i = 0; i < call->ndim; ++i) {
    if (memory.shape[i] != call->shape[call->axes[i]]) return decline(Declined::not_plain);
  }
  if (hptp::overlaps(x->data, memory_of(x), target->data, memory)) {
    return decline(Declined::not_plain);
  }
  if (run(call->problem, x->data, target->data) != hptp::Status::ok) return PyErr_NoMemory();
  Py_INCREF(out);
  return out;
}

PyObject* permute_plain_numpy(const py::detail::npy_api& numpy, PyObject* x, PyObject* perm,
                              PyObject* into) {
  const auto* array = py::detail::array_proxy(x);
  const int64_t elem_bytes = item_bytes(array->descr);
  if (!is_plain(array->descr) || elem_bytes == 0 || array->nd > hptp::kMaxDims) {
    return decline(Declined::not_plain);
  }
  PlainCall call;
  call.ndim = array->nd;
  std::copy_n(array->dimensions, array->nd, call.shape);
  std::copy_n(array->strides, array->nd, call.strides_bytes);
  if (into != Py_None) return permute_plain_into(numpy, array, perm, &call, into);
  if (!call.make(elem_bytes, perm)) return decline(Declined::not_plain);

  Py_intptr_t out_shape[hptp::kMaxDims];
  for (int i = 0; i < call.ndim; ++i) out_shape[i] = array->dimensions[call.axes[i]];
  Py_INCREF(array->descr);  // the new array takes it over
  PyObject* out = numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, array->descr, array->nd,
                                              out_shape, nullptr, nullptr, 0, nullptr);
  if (out == nullptr) return nullptr;
  if (run(call.problem, array->data, py::detail::array_proxy(out)->data) != hptp::Status::ok) {
    Py_DECREF(out);
    return PyErr_NoMemory();
  }
  return out;
}

// PyTorch, met through Python: its C++ library would tie the extension to one version. Null while
// nobody has imported it. Types that are not opaque bytes of a fixed size (quantized ones) have no
// entry in elem_bytes.
struct Torch {
  PyObject* tensor_type;
  PyObject* strided;
  PyObject* elem_bytes;  // dtype -> int

  static const Torch* get() {
    static const Torch* torch = nullptr;
    if (torch == nullptr) {
      const auto module =
          py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("torch").ptr()));
      // While it is being imported the module is there and its types are not.
      if (module && py::hasattr(module, "Tensor") && py::hasattr(module, "bfloat16")) {
        torch = new Torch(module);
      }
    }
    return torch;
  }

 private:
  explicit Torch(const py::object& module)
      : tensor_type(py::object(module.attr("Tensor")).release().ptr()),
        strided(py::object(module.attr("strided")).release().ptr()) {
    py::dict sizes;
    for (const char* name : {"bool", "uint8", "int8", "int16", "int32", "int64", "float16",
                             "bfloat16", "float32", "float64", "complex64", "complex128"}) {
      sizes[module.attr(name)] = module.attr(name).attr("itemsize");
    }
    elem_bytes = sizes.release().ptr();
  }
};

// False too when there is no such attribute, with the error set.
bool attribute_is(PyObject* x, PyObject* name, PyObject* wanted) {
  PyObject* value = PyObject_GetAttr(x, name);
  Py_XDECREF(value);
  return value == wanted;
}

py::object method(PyObject* x, PyObject* name) {
  return py::reinterpret_steal<py::object>(PyObject_CallMethodObjArgs(x, name, nullptr));
}

PyObject* interned(const char* name) { return PyUnicode_InternFromString(name); }

// A strided CPU tensor whose memory holds its values as they are.
bool is_plain_tensor(const Torch& torch, PyObject* x) {
  static PyObject* const is_cpu = interned("is_cpu");
  static PyObject* const is_nested = interned("is_nested");
  static PyObject* const layout = interned("layout");
  static PyObject* const is_conj = interned("is_conj");
  static PyObject* const is_neg = interned("is_neg");
  return attribute_is(x, is_cpu, Py_True) && attribute_is(x, is_nested, Py_False) &&
         attribute_is(x, layout, torch.strided) && method(x, is_conj).ptr() == Py_False &&
         method(x, is_neg).ptr() == Py_False;
}

bool address_of(PyObject* x, uintptr_t* address) {
  static PyObject* const data_ptr = interned("data_ptr");
  const py::object value = method(x, data_ptr);
  if (!value) return false;
  *address = static_cast<uintptr_t>(PyLong_AsUnsignedLongLong(value.ptr()));
  return PyErr_Occurred() == nullptr;
}

bool read_sizes(const py::object& tuple, int ndim, int64_t factor, int64_t* sizes) {
  if (!tuple || !PyTuple_Check(tuple.ptr()) || PyTuple_GET_SIZE(tuple.ptr()) != ndim) return false;
  for (int i = 0; i < ndim; ++i) {
    sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), i)) * factor;
  }
  return PyErr_Occurred() == nullptr;  // symbolic sizes are not integers
}

PyObject* permute_plain_torch(const Torch& torch, PyObject* x, PyObject* perm) {
  static PyObject* const dtype = interned("dtype");
  static PyObject* const shape = interned("shape");
  static PyObject* const stride = interned("stride");
  static PyObject* const new_empty = interned("new_empty");
  if (!is_plain_tensor(torch, x)) return decline(Declined::not_plain);
  const auto x_dtype = py::reinterpret_steal<py::object>(PyObject_GetAttr(x, dtype));
  PyObject* const size = x_dtype ? PyDict_GetItem(torch.elem_bytes, x_dtype.ptr()) : nullptr;
  const auto x_shape = py::reinterpret_steal<py::object>(PyObject_GetAttr(x, shape));
  if (size == nullptr || !x_shape || PyTuple_GET_SIZE(x_shape.ptr()) > hptp::kMaxDims) {
    return decline(Declined::not_plain);
  }
  const int64_t elem_bytes = PyLong_AsLongLong(size);
  PlainCall call;
  call.ndim = static_cast<int>(PyTuple_GET_SIZE(x_shape.ptr()));
  uintptr_t src = 0;
  uintptr_t dst = 0;
  if (!read_sizes(x_shape, call.ndim, 1, call.shape) ||
      !read_sizes(method(x, stride), call.ndim, elem_bytes, call.strides_bytes) ||
      !call.make(elem_bytes, perm) || !address_of(x, &src)) {
    return decline(Declined::not_plain);
  }

  py::tuple out_shape(call.ndim);
  for (int i = 0; i < call.ndim; ++i) {
    out_shape[i] = py::handle(PyTuple_GET_ITEM(x_shape.ptr(), call.axes[i]));
  }
  auto out = py::reinterpret_steal<py::object>(
      PyObject_CallMethodObjArgs(x, new_empty, out_shape.ptr(), nullptr));
  if (!out) return decline(Declined::error);
  // A mode that intercepts creation (fake tensors) gives another type.
  if (Py_TYPE(out.ptr()) != Py_TYPE(x) || !address_of(out.ptr(), &dst)) {
    return decline(Declined::not_plain);
  }
  if (run(call.problem, reinterpret_cast<const void*>(src), reinterpret_cast<void*>(dst)) !=
      hptp::Status::ok) {
    return PyErr_NoMemory();
  }
  return out.release().ptr();
}

// Permutes a plain array; NotImplemented asks for the general path, which also words the errors.
PyObject* permute_any_plain(PyObject* x, PyObject* perm, PyObject* out) {
  const py::detail::npy_api* numpy = numpy_api();
  if (numpy != nullptr && Py_TYPE(x) == numpy->PyArray_Type_) {
    return permute_plain_numpy(*numpy, x, perm, out);
  }
  const Torch* torch = out == Py_None ? Torch::get() : nullptr;
  if (torch != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(x)) == torch->tensor_type) {
    return permute_plain_torch(*torch, x, perm);
  }
  return decline(Declined::not_plain);
}

// permute_plain(x, perm, out=None), called without an argument parser.
PyObject* permute_plain(PyObject*, PyObject* const* args, Py_ssize_t num_args) {
  if (num_args != 2 && num_args != 3) {
    return PyErr_Format(PyExc_TypeError, "permute_plain takes 2 or 3 arguments, not %zd", num_args);
  }
  try {
    return permute_any_plain(args[0], args[1], num_args == 3 ? args[2] : Py_None);
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

PyMethodDef permute_plain_method{
    "permute_plain", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(permute_plain)),
    METH_FASTCALL, "permute_plain(x, perm, out=None, /)\n--\n\n"};

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The C++ core of hptp.";
  m.attr("version") = HPTP_VERSION;
  bind_problem(m);
  bind_plan(m);
  bind_copies(m);
  m.def(
      "normalize_perm",
      [](const py::object& perm, int ndim) {
        return to_tuple(normalize_perm(perm, ndim).data(), ndim);
      },
      py::arg("perm"), py::arg("ndim"));
  m.def("permute", &permute_addresses, py::arg("src_ptr"), py::arg("src_strides_bytes"),
        py::arg("dst_ptr"), py::arg("dst_strides_bytes"), py::arg("shape"), py::arg("perm"),
        py::arg("elem_bytes"), py::arg("num_threads") = 0);
  m.def("permute_in_place", &permute_in_place, py::arg("ptr"), py::arg("strides_bytes"),
        py::arg("shape"), py::arg("perm"), py::arg("elem_bytes"), py::arg("num_threads") = 0);
  m.def("permute_convert", &permute_convert, py::arg("src_ptr"), py::arg("src_strides_bytes"),
        py::arg("src_dtype"), py::arg("dst_ptr"), py::arg("dst_strides_bytes"),
        py::arg("dst_dtype"), py::arg("shape"), py::arg("perm"), py::arg("num_threads") = 0,
        py::arg("scale") = py::none(), py::arg("shift") = py::none(), py::arg("axis") = -1);
  m.def("overlaps", &overlaps, py::arg("ptr_a"), py::arg("shape_a"), py::arg("strides_bytes_a"),
        py::arg("ptr_b"), py::arg("shape_b"), py::arg("strides_bytes_b"), py::arg("elem_bytes"));
  m.add_object("permute_plain", py::reinterpret_steal<py::object>(PyCFunction_NewEx(
                                    &permute_plain_method, nullptr, m.attr("__name__").ptr())));
  m.def("auto_threads", &hptp::auto_threads, py::arg("nbytes"));
  m.def("usable_cpus", &hptp::usable_cpus);
  m.def("isa", &hptp::isa_name);
  m.def("isas", &isas);
  m.def("plan_cache_info", &plan_cache_info);
}
